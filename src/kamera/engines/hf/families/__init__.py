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

from collections.abc import Mapping
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
from kamera.support import examine

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


def family_of(config: Any) -> Family:
    """The family of a config: what a config.json holds, or Transformers' own object.

    Sliding layers are served: their cache is kept whole here, and the model's own mask does the sliding.

    Raises:
        UnsupportedModelError: `kamera doctor` would refuse it too, with the same reason.
    """
    verdict = examine(config if isinstance(config, Mapping) else config.to_dict())
    if verdict.status == "refused":
        raise UnsupportedModelError(
            f"Can't serve this {verdict.model_type!r} model. {verdict.explain()}"
        )
    return FAMILIES[verdict.model_type]


__all__ = ["FAMILIES", "family_of"]
