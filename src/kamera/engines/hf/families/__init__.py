"""The model types that are served, as a table. Adding one: docs/engines.md.

qwen_vl   Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3-VL-MoE: a grid of merged patches, M-RoPE
kimi      Kimi-K2.5: a grid of merged patches, one position axis, MLA
llava     LLaVA: as many tokens as the tower has patches
text      text-only models
"""

from typing import Any

from kamera.engines.hf.families import kimi, llava, qwen_vl, text
from kamera.engines.hf.family import Family
from kamera.errors import UnsupportedModelError

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for module in (qwen_vl, kimi, llava, text)
    for family in module.FAMILIES
}

_REUSABLE = {"full_attention", "sliding_attention"}
"""A sliding layer's cache is kept whole here: the model's mask does the sliding, and the KV stays."""


def family_of(config: Any) -> Family:
    """The family of a loaded config.

    Raises:
        UnsupportedModelError: no row for its model type, or layers whose KV can't be reused.
    """
    model_type = getattr(config, "model_type", None)
    if model_type not in FAMILIES:
        raise UnsupportedModelError(
            f"Model type {model_type!r} isn't supported: expected one of {sorted(FAMILIES)}. "
            "Use a supported checkpoint, or serve this one without Kamera."
        )
    text_config = config.get_text_config()
    others = set(getattr(text_config, "layer_types", None) or ()) - _REUSABLE
    if others:
        raise UnsupportedModelError(
            f"Layers of type {sorted(others)} can't be reused: their KV doesn't hold the whole chunk. "
            f"Expected layers of type {' or '.join(sorted(_REUSABLE))} alone."
        )
    return FAMILIES[model_type]


__all__ = ["FAMILIES", "family_of"]
