"""Frequencies that change with the window's length: a position beyond the switch has to be refused.

Keys of its two sides don't differ by a rotation, so an answer would be wrong whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kamera.engines.hf import cache as kv_cache
from kamera.errors import UnsupportedRopeError
from kamera.lab.conformance.measure import Outcome
from kamera.lab.conformance.subject import Subject


def check(subject: Subject) -> list[Outcome]:
    rope, layout, backbone = subject.rope, subject.b.layout, subject.backbone
    if rope.max_positions is None:
        return []
    kv, _ = subject.prefill([subject.b], layout.at(0))
    canonical = kv.to_canonical(layout.at(0), rope)
    beyond = layout.at(rope.max_positions + 1 - layout.extent)  # by its last token
    cache = kv_cache.write(kv, backbone.channels)
    next_at = torch.full((1, rope.num_axes), rope.max_positions)
    calls: list[Callable[[], Any]] = [
        lambda: subject.prefill([subject.b], beyond),
        lambda: canonical.at(beyond, rope),
        lambda: backbone.forward([subject.b.ids[0]], next_at, cache),
    ]
    answered = float(sum(not refused(call) for call in calls))
    return [Outcome("refused beyond the frequencies' reach", answered, 0.0)]


def refused(call: Callable[[], Any]) -> bool:
    """Whether it raises what it should."""
    try:
        call()
    except UnsupportedRopeError:
        return True
    return False
