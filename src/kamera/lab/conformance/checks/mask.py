"""The mask oracle: the plain model over prefix, A and B, with a mask under which B sees neither.

What it caches for B must be R(δ) of the canonical: that is what "blind" means.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kamera.lab.conformance.measure import Outcome, kv_error, worst
from kamera.lab.conformance.pieces import Piece, positions_of
from kamera.lab.conformance.plain import Plain
from kamera.lab.conformance.subject import Subject, starts_of

FACTOR = 2.0


def check(subject: Subject) -> list[Outcome]:
    window = [subject.prefix, subject.a, subject.b]
    positions, start = positions_of(window), starts_of(window)[2]
    home = subject.b.layout.at(0)
    solo, _ = subject.prefill([subject.b], home)
    blind = solo.to_canonical(home, subject.rope).at(subject.b.layout.at(start), subject.rope)

    end = sum(len(piece.ids) for piece in window)
    begin = end - len(subject.b.ids)
    masked = [
        plain.run(window, positions, blocked_mask(plain, window, dtype))
        for plain, dtype in ((subject.plain, subject.dtype), (subject.exact, torch.float64))
    ]
    subject.count_flips(*masked)
    own, exact = (run.kv.slice_tokens(begin, end) for run in masked)
    rounding = kv_error(own, exact) + subject.rounding([subject.b], home)
    return [worst("blocked mask", [(kv_error(blind, own), FACTOR * rounding)])]


def blocked_mask(plain: Plain, window: list[Piece], dtype: torch.dtype) -> Any:
    """A 4-D mask [1, 1, T, T] to add to scores: causal, B to itself; one for each type of layers."""
    config = plain.model.config.get_text_config()
    allowed = causal(window, bidirectional=config.model_type == "gemma3_text")
    begin = len(allowed) - len(window[-1].ids)
    allowed[begin:, :begin] = False
    kinds = set(getattr(config, "layer_types", None) or ())
    if "sliding_attention" not in kinds:
        return _scores(allowed, dtype)
    steps = torch.arange(len(allowed))
    # Backwards alone: an image sees its own end.
    near = steps > steps[:, None] - config.sliding_window
    masks = {"full_attention": allowed, "sliding_attention": allowed & near}
    return {kind: _scores(mask, dtype) for kind, mask in masks.items()}


def causal(window: list[Piece], *, bidirectional: bool) -> Tensor:
    """[T, T]: each token sees those before it; Gemma3's image tokens also the rest of their image."""
    types = torch.tensor([t for piece in window for t in piece.types])
    owner = torch.tensor([i for i, piece in enumerate(window) for _ in piece.ids])
    allowed = torch.ones(len(types), len(types)).tril().bool()
    if bidirectional:
        image = (types > 0)[:, None] & (types > 0) & (owner[:, None] == owner)
        allowed |= image
    return allowed


def _scores(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    lowest = torch.finfo(dtype).min
    return torch.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, lowest)[None, None]
