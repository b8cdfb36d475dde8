"""Windows for the arms: of the tiny random checkpoint, and of tiny models of other families."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from family_window import FamilyWindow

from kamera.arms import ArmRequest, Workbench
from kamera.engines.hf import HFEngine

QUESTION = "which digit goes with the shape?"
FAMILIES = (
    "qwen2_5_vl",
    "qwen3_vl",
    "kimi_k25",
    "llava",
    "gemma3",
    "llama",
    "nano-gqa",
    "nano-mla",
)
"""M-RoPE, deepstack, MLA, MHA, sliding layers and tokens that see ahead, text; and trained weights."""


@pytest.fixture
def window(engine: HFEngine, picture: Any) -> Callable[[str], ArmRequest]:
    """A request for the window of these letters; the same letter is the same picture."""
    prefix, tail = engine.frame(QUESTION)

    def make(names: str) -> ArmRequest:
        seeds = [ord(name) - ord("a") for name in names]
        images = (picture(s, 84 + 28 * (s % 3), 56 + 28 * (s % 2)) for s in seeds)
        return ArmRequest(prefix, tuple(engine.image_chunk(image) for image in images), tail)

    return make


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> FamilyWindow:
    """The bound is twice what float32 costs plain Transformers in these logits, against float64: once for
    the one forward over the window, and once for the chunks' own forwards, from which arms compose it.
    """
    import kamera
    from kamera.arms import Blind, Reprefill
    from kamera.lab.conformance import entry
    from kamera.lab.conformance.checks.engine import chunk_of
    from kamera.lab.conformance.measure import logits_error
    from kamera.lab.conformance.models import case_of
    from kamera.lab.conformance.packaged import packaged_subjects
    from kamera.lab.conformance.pieces import positions_of

    if request.param in kamera.packaged_models():
        subjects = packaged_subjects(kamera.packaged_model(request.param), torch.float32)
    else:
        subjects = entry.tiny_subjects(case_of(request.param), torch.float32)
    subject = next(iter(subjects))[1]
    pieces = [subject.prefix, subject.a, subject.b, subject.tail]
    prefix, a, b, tail = (chunk_of(subject.engine, piece) for piece in pieces)
    own, exact = subject.pair(pieces, positions_of(pieces))
    bound = 2 * 2 * logits_error(own.logits[-1], exact.logits[-1])
    asked, other = ArmRequest(prefix, (a, b), tail), ArmRequest(prefix, (b, a), tail)
    bench = Workbench(subject.engine)
    truth = Reprefill(subject.engine).serve(asked).logits
    blind = Blind(bench).serve(asked).logits
    return FamilyWindow(request.param, bench, asked, other, bound, truth, blind)
