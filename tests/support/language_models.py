"""Tiny language models of every served text type, built as Transformers builds them."""

import importlib
from typing import Any

from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

CLASSES = {
    "llama": ("llama", "LlamaRotaryEmbedding", "LlamaModel"),
    "qwen2": ("qwen2", "Qwen2RotaryEmbedding", "Qwen2Model"),
    "qwen3": ("qwen3", "Qwen3RotaryEmbedding", "Qwen3Model"),
    "qwen2_vl_text": ("qwen2_vl", "Qwen2VLRotaryEmbedding", "Qwen2VLTextModel"),
    "qwen2_5_vl_text": ("qwen2_5_vl", "Qwen2_5_VLRotaryEmbedding", "Qwen2_5_VLTextModel"),
    "qwen2_5_omni_text": (
        "qwen2_5_omni",
        "Qwen2_5OmniRotaryEmbedding",
        "Qwen2_5OmniThinkerTextModel",
    ),
    "qwen3_vl_text": ("qwen3_vl", "Qwen3VLTextRotaryEmbedding", "Qwen3VLTextModel"),
    "qwen3_vl_moe_text": ("qwen3_vl_moe", "Qwen3VLMoeTextRotaryEmbedding", "Qwen3VLMoeTextModel"),
    "qwen3_omni_moe_text": (
        "qwen3_omni_moe",
        "Qwen3OmniMoeThinkerTextRotaryEmbedding",
        "Qwen3OmniMoeThinkerTextModel",
    ),
    "paddleocr_vl_text": ("paddleocr_vl", "PaddleOCRRotaryEmbedding", "PaddleOCRTextModel"),
    "glm4v_text": ("glm4v", "Glm4vTextRotaryEmbedding", "Glm4vTextModel"),
    "glm4v_moe_text": ("glm4v_moe", "Glm4vMoeTextRotaryEmbedding", "Glm4vMoeTextModel"),
    "gemma3_text": ("gemma3", "Gemma3RotaryEmbedding", "Gemma3TextModel"),
    "deepseek_v2": ("deepseek_v2", "DeepseekV2RotaryEmbedding", "DeepseekV2Model"),
    "deepseek_v3": ("deepseek_v3", "DeepseekV3RotaryEmbedding", "DeepseekV3Model"),
}
"""Served text type -> package, rotary module, model."""

OTHERS = {"gemma3n_text": ("gemma3n", "Gemma3nRotaryEmbedding", "Gemma3nTextModel")}

SIZES: dict[str, Any] = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": 64,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_HEAD = {"head_dim": 32}
_MOE = {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}
_MLA = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 48,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "q_lora_rank": None,
    "first_k_dense_replace": 2,
    "n_routed_experts": 4,
    "moe_intermediate_size": 32,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
}
_SECTION = {"rope_scaling": {"rope_type": "default", "mrope_section": [4, 6, 6]}}
_INTERLEAVED = {
    "rope_scaling": {
        "rope_type": "default",
        "mrope_section": [6, 5, 5],
        "mrope_interleaved": True,
    }
}
_GLM = {
    "partial_rotary_factor": 0.5,
    "rope_scaling": {"rope_type": "default", "mrope_section": [2, 3, 3]},
}
OWN: dict[str, dict[str, Any]] = {
    "qwen2_vl_text": {"rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}},
    "qwen2_5_vl_text": _SECTION,
    "qwen2_5_omni_text": _SECTION,
    "qwen3": _HEAD,
    "qwen3_vl_text": {**_HEAD, **_INTERLEAVED},
    "qwen3_vl_moe_text": {**_HEAD, **_MOE, **_INTERLEAVED},
    "qwen3_omni_moe_text": {**_HEAD, **_MOE, **_INTERLEAVED},
    "paddleocr_vl_text": {**_HEAD, **_SECTION},
    "glm4v_text": _GLM,
    "glm4v_moe_text": {
        **_HEAD,
        **_GLM,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    },
    "gemma3_text": {**_HEAD, "sliding_window_pattern": 2, "sliding_window": 8},
    "deepseek_v2": _MLA,
    "deepseek_v3": _MLA,
}
"""What each text type needs besides, as an early config.json writes it."""


def raw_config(kind: str, **more: Any) -> dict[str, Any]:
    """A config.json of this text type."""
    return {"model_type": kind, **SIZES, **OWN.get(kind, {}), **more}


def build_config(raw: dict[str, Any]) -> PreTrainedConfig:
    """The class's own reading of it. Copied: the class writes into nested dicts."""
    import copy

    own = copy.deepcopy(raw)
    return CONFIG_MAPPING[own.pop("model_type")](**own)


def modeling(kind: str) -> Any:
    """The module with the classes of a text type."""
    package = {**CLASSES, **OTHERS}[kind][0]
    return importlib.import_module(f"transformers.models.{package}.modeling_{package}")


def build_rotary(kind: str, config: PreTrainedConfig) -> Any:
    """Its rotary module."""
    return getattr(modeling(kind), CLASSES[kind][1])(config)


def build_model(kind: str, config: PreTrainedConfig) -> Any:
    """The language model, random weights of one seed."""
    import torch

    torch.manual_seed(0)
    return getattr(modeling(kind), {**CLASSES, **OTHERS}[kind][2])(config).eval()
