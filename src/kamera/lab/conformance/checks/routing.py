"""A mixture of experts chooses, and a choice can flip under rounding: then two forwards differ by much more.

The bounds would grow with it and hide everything else. So in every pair of forwards that gave a bound, in the
dtype and in float64, the choices are compared: none may differ. This check comes last.
"""

from __future__ import annotations

from kamera.lab.conformance.measure import Outcome
from kamera.lab.conformance.subject import Subject


def check(subject: Subject) -> list[Outcome]:
    if not subject.num_choices:
        return []
    return [Outcome("experts that rounding changes", float(subject.num_flips), 0.0)]
