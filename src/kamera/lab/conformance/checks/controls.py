"""Negative controls: errors that a suite must see. Each has to lie far above the bound of the real check."""

from __future__ import annotations

import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.lab.conformance.measure import Outcome, control, kv_error
from kamera.lab.conformance.pieces import extent_of, ids_of, positions_of
from kamera.lab.conformance.subject import Subject, starts_of
from kamera.shapes import Positions

FACTOR = 2.0


def check(subject: Subject) -> list[Outcome]:
    home, target = subject.b.layout.at(0), subject.spread(subject.b.layout, subject.far)
    kv, _ = subject.prefill([subject.b], home)
    canonical = kv.to_canonical(home, subject.rope)
    row = [channel.rotates for channel in kv.channels].index(True)
    wanted = subject.run([subject.b], target).kv
    bounds = subject.rounding([subject.b], home) + subject.rounding([subject.b], target)

    def wrong(name: str, got: ChunkKV) -> Outcome:
        return control(name, kv_error(got, wanted)[row], FACTOR * bounds[row])

    outcomes = [
        wrong("δ off by one", canonical.at(target - 1, subject.rope)),
        wrong("keys not rotated", canonical),
    ]
    if subject.rope.num_axes > 1:
        swapped = target[:, [0, 2, 1]]
        outcomes.append(wrong("h and w swapped", canonical.at(swapped, subject.rope)))
    return [*outcomes, *media_controls(subject), not_blocked(subject)]


def not_blocked(subject: Subject) -> Outcome:
    """KV(B given A) is far from the blind one: there is something to patch."""
    window = [subject.prefix, subject.a, subject.b]
    starts = starts_of(window)
    home, placed = subject.b.layout.at(0), subject.b.layout.at(starts[2])
    solo, _ = subject.prefill([subject.b], home)
    blind = solo.to_canonical(home, subject.rope).at(placed, subject.rope)
    begin = len(subject.prefix.ids) + len(subject.a.ids)
    conditioned = subject.run(window, positions_of(window)).kv
    behind = conditioned.slice_tokens(begin, conditioned.num_tokens)
    bounds = subject.rounding(window, positions_of(window)) + subject.rounding([subject.b], home)
    errors = kv_error(blind, behind)[:, 1:]  # layer 0 sees nothing before it
    return control("B sees A", errors, FACTOR * bounds[:, 1:])


def media_controls(subject: Subject) -> list[Outcome]:
    """What a window of media can lose besides: a level of deepstack, and where the text goes on."""
    window = [subject.prefix, subject.a, subject.b, subject.tail]
    positions, media = positions_of(window), subject.media(window)
    own, bound = subject.run(window, positions).kv, FACTOR * subject.rounding(window, positions)

    def wrong(name: str, media: Tensor | None, positions: Positions) -> Outcome:
        kv, _ = subject.backbone.prefill(ids_of(window), positions, media)
        return control(name, kv_error(kv, own), bound)

    outcomes, hidden = [], subject.backbone.text_config.hidden_size
    if media is not None and media.shape[1] > hidden:
        lost = media.clone()
        lost[:, -hidden:] = 0
        outcomes.append(wrong("last deepstack level dropped", lost, positions))
    num_tokens = sum(len(piece.ids) for piece in window[:3])
    if extent_of(window[:3]) != num_tokens:
        counted = torch.cat([positions_of(window[:3]), subject.tail.layout.at(num_tokens)])
        outcomes.append(wrong("text counted by tokens", media, counted))
    return outcomes
