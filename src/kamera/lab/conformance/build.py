"""`build_model`: a case's model, its weights redrawn so that no layer is close to linear."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from kamera.engines.hf.families import family_of
from kamera.lab.conformance.case import Case
from kamera.lab.conformance.vocabulary import BY_CHARACTER, Vocabulary
from kamera.lab.conformance.weights import redraw


def build_model(
    case: Case, vocabulary: Vocabulary = BY_CHARACTER, *, seed: int | None = None
) -> Any:
    """A model of the class that the family's row names, in float32.

    Args:
        seed: of the weights; None for the case's own.
    """
    config = case.config(vocabulary)
    chosen = case.seed if seed is None else seed
    torch.manual_seed(chosen)
    model = getattr(transformers, family_of(config).model_class)(config)
    redraw(model, chosen)
    return model.eval()
