"""Composition: chunks formed one by one elsewhere, relocated, then the tail, against the full forward.

The full forward is the model's own from token ids and pixels: its own towers, placeholders and positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from kamera.lab.conformance.measure import Outcome, logits_error
from kamera.lab.conformance.pieces import Piece, extent_of, positions_of
from kamera.lab.conformance.subject import Subject, starts_of

FACTOR = 2.0
NEAR = 41
"""Where float32 angles are nearly exact: the bound is a thousand times narrower than far out."""


def check(subject: Subject) -> list[Outcome]:
    chunks = [subject.prefix, subject.a, subject.b]
    window = [*chunks, subject.tail]
    full = subject.native(window)
    outcomes = []
    for name, start in (("near", NEAR), ("far", subject.far)):
        canonical = subject.form(chunks, starts_of(chunks, start))
        context = subject.place(canonical, chunks, starts_of(chunks))
        at = subject.tail.layout.at(extent_of(chunks))
        _, logits = subject.prefill([subject.tail], at, context)
        error = logits_error(logits, full.logits[-1])
        bound = cost(subject, window, 0) + cost(subject, window, start)
        check = f"composed from {name}"
        outcomes.append(Outcome(check, error, FACTOR * bound))
    return outcomes


def cost(subject: Subject, window: Sequence[Piece], start: int) -> float:
    """What the dtype costs plain Transformers in the last logits of a window that starts there."""
    own, exact = subject.pair(window, positions_of(window, start))
    return logits_error(own.logits[-1], exact.logits[-1])
