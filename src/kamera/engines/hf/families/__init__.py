"""The model types that are served, as a table. Adding one: docs/engines.md.

qwen_vl          Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3-VL-MoE: a grid of merged patches, M-RoPE
qwen_omni        Qwen2.5-Omni, Qwen3-Omni-MoE thinkers: the same, and audio
glm4v            GLM-4.1V, GLM-4.5V: a grid, M-RoPE over half of each head
paddleocr_vl     PaddleOCR-VL: a grid, M-RoPE
kimi             Kimi-K2.5: a grid of merged patches, one position axis, MLA
internvl         InternVL3: tiles and a thumbnail between wrapper tokens
llava            LLaVA-1.5: as many tokens as the tower has patches
llava_onevision  LLaVA-OneVision: an overview, then tiles as one grid with newline features
idefics3         Idefics3, SmolVLM: sub-images named by row and column, then the whole image
deepseek_vl      DeepSeek-VL: as many tokens as the tower has patches, MHA
gemma3           Gemma 3: a fixed number of tokens that attend both ways; sliding layers, two bases
text             text-only models
"""

from typing import Any

from kamera.engines.hf.families import (
    deepseek_vl,
    gemma3,
    glm4v,
    idefics3,
    internvl,
    kimi,
    llava,
    llava_onevision,
    paddleocr_vl,
    qwen_omni,
    qwen_vl,
    text,
)
from kamera.engines.hf.family import Family
from kamera.errors import UnsupportedModelError

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for module in (
        qwen_vl,
        qwen_omni,
        glm4v,
        paddleocr_vl,
        kimi,
        internvl,
        llava,
        llava_onevision,
        idefics3,
        deepseek_vl,
        gemma3,
        text,
    )
    for family in module.FAMILIES
}

_REUSABLE = {"full_attention", "sliding_attention"}
"""A sliding layer's cache is kept whole here: the model's mask does the sliding, and the KV stays.

The mask counts tokens in the cache, so it is exact as long as the cache holds all tokens of the window
that the new ones belong to, as it always does. Tests hold it for spans and images longer than the window.
"""


def family_of(config: Any) -> Family:
    """The family of a loaded config.

    Raises:
        UnsupportedModelError: no row for its model type or its language model's, attention that isn't
            causal, or layers whose KV can't be reused.
    """
    model_type = getattr(config, "model_type", None)
    if model_type not in FAMILIES:
        raise UnsupportedModelError(
            f"Model type {model_type!r} isn't supported: expected one of {sorted(FAMILIES)}. "
            "Use a supported checkpoint, or serve this one without Kamera."
        )
    family, text_config = FAMILIES[model_type], config.get_text_config()
    if family.texts and text_config.model_type not in family.texts:
        raise UnsupportedModelError(
            f"The language model of this {model_type} is {text_config.model_type!r}: expected one of "
            f"{sorted(family.texts)}, whose KV is known to move exactly."
        )
    if getattr(text_config, "use_bidirectional_attention", None):
        raise UnsupportedModelError(
            f"This {model_type} has use_bidirectional_attention: every token sees the ones behind it, so a "
            "chunk's KV changes with what follows. Expected causal attention."
        )
    others = set(getattr(text_config, "layer_types", None) or ()) - _REUSABLE
    if others:
        raise UnsupportedModelError(
            f"Layers of type {sorted(others)} can't be reused: their KV doesn't hold the whole chunk. "
            f"Expected layers of type {' or '.join(sorted(_REUSABLE))} alone."
        )
    return family


__all__ = ["FAMILIES", "family_of"]
