"""Relocation: a chunk moved by the operator against the model's own prefill at the other offset.

Its error is at most the two prefills' own rounding: with R exact,
|R(δ)·KV(p0) − KV(p1)| <= |KV(p0) − exact(p0)| + |KV(p1) − exact(p1)|, and twice that is the bound.
`exact` is the model in float64. For layer 0, whose keys come from no attention, it has the model's own
float32 angles: there the operator must undo the very rounding that the model made.
"""

from __future__ import annotations

import torch

from kamera.lab.conformance.measure import Outcome, kv_error, layer_error, worst
from kamera.lab.conformance.subject import Subject
from kamera.shapes import Positions

FACTOR = 2.0


def moves(subject: Subject) -> list[tuple[Positions, Positions]]:
    """From and to: near, far, back, and with t, h and w apart."""
    far, layout = subject.far, subject.b.layout
    pairs = [(layout.at(0), layout.at(37)), (layout.at(0), layout.at(far))]
    pairs.append((layout.at(far), layout.at(5)))
    apart = subject.spread(layout, far)
    if subject.rope.num_axes > 1:
        pairs.append((layout.at(3), apart))
    return pairs


def check(subject: Subject) -> list[Outcome]:
    first, every = [], []
    for home, target in moves(subject):
        kv, _ = subject.prefill([subject.b], home)
        moved = kv.to_canonical(home, subject.rope).at(target, subject.rope)
        error = kv_error(moved, subject.run([subject.b], target).kv)
        own = [subject.rounding([subject.b], where) for where in (home, target)]
        rounded = [
            subject.rounding([subject.b], where, round_angles=True) for where in (home, target)
        ]
        first.append((error[:, 0], FACTOR * (rounded[0] + rounded[1])[:, 0]))
        every.append((error, FACTOR * (own[0] + own[1])))
    return [
        worst("relocation, layer 0", first),
        worst("relocation, all layers", every),
        origin(subject),
    ]


def origin(subject: Subject) -> Outcome:
    """Layer 0 with all positions 0 isn't rotated by the model: that is the canonical, but for s."""
    positions = subject.b.layout.at(subject.far)
    kv, _ = subject.prefill([subject.b], positions)
    nowhere = torch.zeros_like(positions)
    wanted = subject.run([subject.b], nowhere).kv
    placed = kv.to_canonical(positions, subject.rope).at(nowhere, subject.rope)
    bound = subject.rounding([subject.b], positions, round_angles=True)
    bound = bound + subject.rounding([subject.b], nowhere, round_angles=True)
    pairs = []
    for row, channel in enumerate(wanted.channels):
        error = layer_error(placed.tensors[channel.name][:1], wanted.tensors[channel.name][:1])
        pairs.append((error, FACTOR * bound[row, :1]))
    return worst("canonical, layer 0", pairs)
