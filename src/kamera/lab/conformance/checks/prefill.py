"""Prefill chunk by chunk against all at once; embeddings that were made once and are used again."""

from __future__ import annotations

from kamera.channels import ChunkKV, concat
from kamera.lab.conformance.measure import Outcome, differing, kv_error, worst
from kamera.lab.conformance.pieces import positions_of
from kamera.lab.conformance.subject import Subject, starts_of

FACTOR = 2.0


def check(subject: Subject) -> list[Outcome]:
    window = [subject.prefix, subject.a, subject.b]
    positions = positions_of(window)
    whole, _ = subject.prefill(window, positions)
    parts: list[ChunkKV] = []
    for piece, start in zip(window, starts_of(window), strict=True):
        kv, _ = subject.prefill([piece], piece.layout.at(start), concat(parts) if parts else None)
        parts.append(kv)
    bound = FACTOR * subject.rounding(window, positions)
    outcomes = [worst("chunk by chunk", [(kv_error(concat(parts), whole), bound)])]
    outcomes.append(worst("in one go", [(kv_error(whole, subject.native(window).kv), bound)]))
    if subject.b.inputs:
        outcomes.append(Outcome("embeddings used again", reuse(subject), 0.0))
    return outcomes


def reuse(subject: Subject) -> float:
    """Bytes that differ when B is seen a second time, or prefilled with what was seen the first time."""
    b = subject.b
    kept = subject.media([b])
    assert kept is not None
    differ = differing(subject.backbone.see(b.kind, b.inputs), kept)
    at = b.layout.at(0)
    first, _ = subject.prefill([b], at)
    again, _ = subject.prefill([b], b.layout.at(0))
    return differ + sum(differing(again.tensors[n], first.tensors[n]) for n in first.tensors)
