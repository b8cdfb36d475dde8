"""Composition: chunks formed one by one far away, relocated, then the tail, against the full forward.

The full forward is the model's own from token ids and pixels: its own towers, placeholders and positions.
"""

from __future__ import annotations

from kamera.lab.conformance.measure import Outcome, logits_error
from kamera.lab.conformance.pieces import extent_of, positions_of
from kamera.lab.conformance.subject import Subject, starts_of

FACTOR = 2.0


def check(subject: Subject) -> list[Outcome]:
    chunks = [subject.prefix, subject.a, subject.b]
    window = [*chunks, subject.tail]
    far = subject.far
    full = subject.native(window)
    bound = 0.0
    for start in (0, far):
        at = positions_of(window, start)
        own, exact = subject.pair(window, at)
        bound += logits_error(own.logits[-1], exact.logits[-1])
    canonical = subject.form(chunks, starts_of(chunks, far))
    context = subject.place(canonical, chunks, starts_of(chunks))
    at = subject.tail.layout.at(extent_of(chunks))
    _, logits = subject.prefill([subject.tail], at, context)
    error = logits_error(logits, full.logits[-1])
    outcomes = [Outcome("composed against full forward", error, FACTOR * bound)]
    if subject.counts:
        differ = float((full.positions != positions_of(window)).sum())
        outcomes.append(Outcome("positions as the model counts them", differ, 0.0))
    return outcomes
