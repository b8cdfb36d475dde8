"""The tiny models, a row each.

text      Llama, Qwen2, Qwen3, DeepSeek-V2 and -V3, Gemma3: every RoPE scheme
qwen_vl   Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3-VL-MoE
mrope     the Omni thinkers, GLM-4V, PaddleOCR-VL
one_axis  Kimi, DeepSeek-VL, InternVL, LLaVA, LLaVA-OneVision, Idefics3, SmolVLM, Gemma3
grids     what the towers take
"""

from kamera.lab.conformance.case import Case
from kamera.lab.conformance.models import mrope, one_axis, qwen_vl, text
from kamera.lab.conformance.vocabulary import BY_CHARACTER

CASES: tuple[Case, ...] = tuple(
    case for module in (text, qwen_vl, mrope, one_axis) for case in module.CASES
)


def case_of(model_type: str, variant: str | None = None) -> Case:
    """The first case of a model type, or that of a variant.

    Raises:
        KeyError: there is none.
    """
    for case in CASES:
        if case.model_type == model_type and variant in (None, case.variant):
            return case
    raise KeyError(f"No tiny model of {model_type!r} (variant {variant!r}): see CASES")


def case_of_scheme(scheme: str) -> Case:
    """The first text model whose RoPE is of this type, e.g. `yarn`.

    Raises:
        KeyError: there is none.
    """
    for case in text.CASES:
        if case.config(BY_CHARACTER).rope_parameters.get("rope_type") == scheme:
            return case
    raise KeyError(f"No tiny text model of rope_type {scheme!r}: see CASES")


__all__ = ["CASES", "case_of", "case_of_scheme"]
