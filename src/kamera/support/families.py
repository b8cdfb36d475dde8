"""Model families as data: one row a model type, served or not, and why not.

A row says what the family is; whether one checkpoint can be served is decided from its own config
(`kamera.support.examine`): a served family with layers that can't be relocated is refused all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kamera.support.verdict import Kind

PLAIN_TEXTS = ("llama", "qwen2", "qwen3")
"""Language models that a vision model of the LLaVA kind may hold: 1-D RoPE, tested on their own."""


@dataclass(frozen=True)
class Family:
    """A model type.

    Attributes:
        name: what people call it.
        text: the language model's type when the config doesn't say, and the one that is tested with it.
        model_class: Transformers' class; empty where there is none.
        modalities: what is served; empty for a family that isn't.
        unserved: what the model could take besides, and Kamera doesn't serve.
        texts: other language models that are served in it.
        towers: of a config that names its tower's type: key of the part -> the types that are tested.
        published_as: other names of `model_class` in the `architectures` of published configs.
        served: tests hold that its KV is exact: `tested` says on what.
        kind, why, todo: of a family that isn't served; a reason that its layers give comes first.
        deepstack: vision layers whose features go to language layers, when the config lists none.
        example: a checkpoint with published weights.
        sample: keys that its configs set, where the class's defaults alone wouldn't show what it is.
    """

    name: str
    text: str
    model_class: str = ""
    modalities: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    towers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    published_as: tuple[str, ...] = ()
    served: bool = False
    tested: str = ""
    kind: Kind = "not yet"
    why: str = ""
    todo: str = ""
    deepstack: int = 0
    example: str = ""
    sample: Mapping[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> set[str]:
        """Names in `architectures` of checkpoints that hold all of its weights."""
        return {self.model_class, *self.published_as}


_TINY = "tiny random models"
_IMAGE = ("text", "image")
_VIDEO = ("text", "image", "video")
_ALL = ("text", "image", "video", "audio")
_SIGLIP = {"vision_config": ("siglip_vision_model",)}


def _served(
    name: str,
    text: str,
    model_class: str,
    modalities: tuple[str, ...],
    *,
    unserved: tuple[str, ...] = (),
    texts: tuple[str, ...] = (),
    towers: Mapping[str, tuple[str, ...]] | None = None,
    published_as: tuple[str, ...] = (),
    tested: str = _TINY,
    deepstack: int = 0,
    example: str = "",
    sample: Mapping[str, Any] | None = None,
) -> Family:
    return Family(
        name,
        text,
        model_class,
        modalities,
        unserved,
        texts,
        towers or {},
        published_as,
        served=True,
        tested=tested,
        deepstack=deepstack,
        example=example,
        sample=sample or {},
    )


_QWEN25_OMNI = _served(
    "Qwen2.5-Omni thinker",
    "qwen2_5_omni_text",
    "Qwen2_5OmniThinkerForConditionalGeneration",
    _ALL,
    published_as=("Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration"),
    example="Qwen/Qwen2.5-Omni-7B",
)
_QWEN3_OMNI = _served(
    "Qwen3-Omni thinker",
    "qwen3_omni_moe_text",
    "Qwen3OmniMoeThinkerForConditionalGeneration",
    _ALL,
    published_as=("Qwen3OmniMoeForConditionalGeneration",),
    deepstack=3,
    example="Qwen/Qwen3-Omni-30B-A3B-Instruct",
    sample={"text_config": {"head_dim": 128}},
)

SERVED: dict[str, Family] = {
    "qwen2_vl": _served(
        "Qwen2-VL",
        "qwen2_vl_text",
        "Qwen2VLForConditionalGeneration",
        _VIDEO,
        example="Qwen/Qwen2-VL-2B-Instruct",
    ),
    "qwen2_5_vl": _served(
        "Qwen2.5-VL",
        "qwen2_5_vl_text",
        "Qwen2_5_VLForConditionalGeneration",
        _VIDEO,
        example="Qwen/Qwen2.5-VL-7B-Instruct",
    ),
    "qwen3_vl": _served(
        "Qwen3-VL",
        "qwen3_vl_text",
        "Qwen3VLForConditionalGeneration",
        _VIDEO,
        deepstack=3,
        example="Qwen/Qwen3-VL-8B-Instruct",
    ),
    "qwen3_vl_moe": _served(
        "Qwen3-VL-MoE",
        "qwen3_vl_moe_text",
        "Qwen3VLMoeForConditionalGeneration",
        _VIDEO,
        deepstack=3,
        example="Qwen/Qwen3-VL-30B-A3B-Instruct",
    ),
    "qwen2_5_omni": _QWEN25_OMNI,
    "qwen2_5_omni_thinker": _QWEN25_OMNI,
    "qwen3_omni_moe": _QWEN3_OMNI,
    "qwen3_omni_moe_thinker": _QWEN3_OMNI,
    "kimi_k25": _served(
        "Kimi-K2.5",
        "deepseek_v3",
        "Kimi_K25ForConditionalGeneration",
        _IMAGE,
        unserved=("video",),
        published_as=("KimiK25ForConditionalGeneration",),
        example="moonshotai/Kimi-K2.5",
    ),
    "deepseek_vl": _served(
        "DeepSeek-VL",
        "llama",
        "DeepseekVLForConditionalGeneration",
        _IMAGE,
        texts=PLAIN_TEXTS,
        towers=_SIGLIP,
        example="deepseek-community/deepseek-vl-1.3b-chat",
    ),
    "deepseek_vl_hybrid": _served(
        "DeepSeek-VL, hybrid",
        "llama",
        "DeepseekVLHybridForConditionalGeneration",
        _IMAGE,
        texts=PLAIN_TEXTS,
        towers={**_SIGLIP, "high_res_vision_config": ("sam_vision_model",)},
        example="deepseek-community/deepseek-vl-7b-chat",
    ),
    "internvl": _served(
        "InternVL3",
        "qwen2",
        "InternVLForConditionalGeneration",
        _IMAGE,
        unserved=("video",),
        texts=PLAIN_TEXTS,
        example="OpenGVLab/InternVL3-8B-hf",
    ),
    "llava": _served(
        "LLaVA-1.5",
        "llama",
        "LlavaForConditionalGeneration",
        _IMAGE,
        texts=PLAIN_TEXTS,
        towers={"vision_config": ("clip_vision_model", "siglip_vision_model")},
        example="llava-hf/llava-1.5-7b-hf",
    ),
    "llava_onevision": _served(
        "LLaVA-OneVision",
        "qwen2",
        "LlavaOnevisionForConditionalGeneration",
        _IMAGE,
        unserved=("video",),
        texts=PLAIN_TEXTS,
        towers=_SIGLIP,
        example="llava-hf/llava-onevision-qwen2-7b-ov-hf",
    ),
    "smolvlm": _served(
        "SmolVLM2",
        "llama",
        "SmolVLMForConditionalGeneration",
        _IMAGE,
        unserved=("video",),
        texts=PLAIN_TEXTS,
        example="HuggingFaceTB/SmolVLM2-2.2B-Instruct",
    ),
    "idefics3": _served(
        "Idefics3",
        "llama",
        "Idefics3ForConditionalGeneration",
        _IMAGE,
        texts=PLAIN_TEXTS,
        example="HuggingFaceM4/Idefics3-8B-Llama3",
    ),
    "paddleocr_vl": _served(
        "PaddleOCR-VL",
        "paddleocr_vl_text",
        "PaddleOCRVLForConditionalGeneration",
        _IMAGE,
        example="PaddlePaddle/PaddleOCR-VL",
    ),
    "gemma3": _served(
        "Gemma 3",
        "gemma3_text",
        "Gemma3ForConditionalGeneration",
        _IMAGE,
        towers=_SIGLIP,
        example="google/gemma-3-4b-it",
    ),
    "glm4v": _served(
        "GLM-4.1V",
        "glm4v_text",
        "Glm4vForConditionalGeneration",
        _VIDEO,
        example="zai-org/GLM-4.1V-9B-Thinking",
        sample={"text_config": {"partial_rotary_factor": 0.5}},
    ),
    "glm4v_moe": _served(
        "GLM-4.5V",
        "glm4v_moe_text",
        "Glm4vMoeForConditionalGeneration",
        _VIDEO,
        example="zai-org/GLM-4.5V",
        sample={"text_config": {"head_dim": 128}},
    ),
    "gemma3_text": _served(
        "Gemma 3, text",
        "gemma3_text",
        "Gemma3ForCausalLM",
        ("text",),
        example="google/gemma-3-1b-it",
    ),
    "llama": _served(
        "Llama",
        "llama",
        "LlamaForCausalLM",
        ("text",),
        published_as=("LLaMAForCausalLM",),
        example="meta-llama/Llama-3.1-8B",
    ),
    "qwen2": _served("Qwen2", "qwen2", "Qwen2ForCausalLM", ("text",), example="Qwen/Qwen2.5-7B"),
    "qwen3": _served("Qwen3", "qwen3", "Qwen3ForCausalLM", ("text",), example="Qwen/Qwen3-8B"),
    "deepseek_v2": _served(
        "DeepSeek-V2",
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        ("text",),
        example="deepseek-ai/DeepSeek-V2-Lite",
    ),
    "deepseek_v3": _served(
        "DeepSeek-V3",
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        ("text",),
        example="deepseek-ai/DeepSeek-V3",
    ),
}
"""Model types that are served, each with tests of its exactness."""
