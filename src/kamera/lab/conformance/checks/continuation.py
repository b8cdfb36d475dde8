"""The text behind an edited window: chunks dropped, reordered or left apart by a gap.

Each edited window is decoded from composed KV, positions given; the plain model decodes the same window from
its token ids and pixels, greedily, the whole window at every step. Before ours runs, the model's own memory
of positions (`rope_deltas`) is filled with nonsense.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kamera.engines.hf import cache as kv_cache
from kamera.lab.conformance.checks.composition import NEAR
from kamera.lab.conformance.measure import Outcome, differing, logits_error
from kamera.lab.conformance.pieces import Piece
from kamera.lab.conformance.plain import remember
from kamera.lab.conformance.subject import Subject, starts_of
from kamera.shapes import Positions

FACTOR = 2.0
NUM_STEPS = 3
NONSENSE = 12_345


@dataclass(frozen=True, eq=False)
class Edit:
    """A window after an edit: its chunks, where each was formed and where each stands now."""

    chunks: list[Piece]
    formed: list[int]
    placed: list[int]
    has_gap: bool = False

    def positions(self, tail: Piece, *, formed: bool = False) -> Positions:
        """[T, P] of the chunks and the tail behind them."""
        starts = self.formed if formed else self.placed
        layouts = [c.layout.at(at) for c, at in zip(self.chunks, starts, strict=True)]
        return torch.cat([*layouts, tail.layout.at(starts[-1] + self.chunks[-1].layout.extent)])


def edits(subject: Subject) -> Iterator[Edit]:
    """A was dropped: far out to the origin. Reordered: from near by. Left apart by a gap: in place."""
    prefix, a, b = subject.prefix, subject.a, subject.b
    for chunks, start in (([prefix, b], subject.far), ([prefix, b, a], NEAR)):
        yield Edit(chunks, starts_of(chunks, start), starts_of(chunks))
    apart = [0, starts_of([prefix, a, b])[2]]
    yield Edit([prefix, b], apart, apart, has_gap=True)


def check(subject: Subject) -> list[Outcome]:
    error, bound, differ, flips, ratio = 0.0, 0.0, 0.0, 0.0, -1.0
    for edit in edits(subject):
        tokens, wanted = greedy(subject, edit)
        got = continued(subject, edit, tokens)
        if edit.has_gap:  # once is enough: the other windows are decoded behind plain forwards
            remember(subject.backbone.model, torch.tensor([[NONSENSE]]))
            differ = differing(continued(subject, edit, tokens), got)
        found, allowed = logits_error(got, wanted), FACTOR * cost(subject, edit, tokens)
        flips += decided_flips(speakable(subject, got), speakable(subject, wanted), allowed)
        if found / allowed > ratio:
            error, bound, ratio = found, allowed, found / allowed
    return [
        Outcome("continuation after edits", error, bound),
        Outcome("greedy tokens after edits", flips, 0.0),
        Outcome("continuation with stale rope_deltas", differ, 0.0),
    ]


def greedy(subject: Subject, edit: Edit) -> tuple[list[int], Tensor]:
    """The plain model's next tokens and logits [steps, vocab], positions its own unless there is a gap."""
    tail, rows = subject.tail, []
    tokens: list[int] = []
    for _ in range(NUM_STEPS):
        given = edit.positions(tail) if edit.has_gap or not subject.counts else None
        rows.append(subject.plain.run([*edit.chunks, tail], given).logits[-1])
        tokens.append(int(speakable(subject, rows[-1]).argmax()))
        tail = tail.more(tokens[-1])
    return tokens, torch.stack(rows)


def continued(subject: Subject, edit: Edit, tokens: list[int]) -> Tensor:
    """Ours over the composed KV, fed the same tokens: logits [steps, vocab]."""
    backbone = subject.backbone
    canonical = subject.form(edit.chunks, edit.formed)
    context = subject.place(canonical, edit.chunks, edit.placed)
    cache = kv_cache.write(context, backbone.channels)
    start = edit.placed[-1] + edit.chunks[-1].layout.extent
    rows = [backbone.forward(list(subject.tail.ids), subject.tail.layout.at(start), cache)]
    for step, token in enumerate(tokens[:-1]):
        at = torch.full((1, subject.rope.num_axes), start + subject.tail.layout.extent + step)
        rows.append(backbone.forward([token], at, cache))
    return torch.stack(rows)


def cost(subject: Subject, edit: Edit, tokens: list[int]) -> float:
    """What the dtype costs plain Transformers in these logits, where they were formed and where they are."""
    tail = subject.tail
    for token in tokens[:-1]:
        tail = tail.more(token)
    total = 0.0
    for formed in (False, True):
        at = edit.positions(tail, formed=formed)
        own, exact = subject.pair([*edit.chunks, tail], at)
        total += logits_error(own.logits[-NUM_STEPS:], exact.logits[-NUM_STEPS:])
    return total


def speakable(subject: Subject, logits: Tensor) -> Tensor:
    """Without the media's tokens: the plain model would look for media behind one that it wrote."""
    ids = torch.tensor(sorted(subject.media_ids), dtype=torch.long)
    return logits.double().index_fill(-1, ids, float(logits.min()) - 1.0)


def decided_flips(got: Tensor, wanted: Tensor, allowed: float) -> float:
    """Steps at which the greedy token differs although the plain model's choice is beyond the rounding."""
    top = wanted.topk(2, dim=-1)
    margin = top.values[:, 0] - top.values[:, 1]
    decided = margin > 2 * allowed * wanted.norm(dim=-1)
    return float(((got.argmax(-1) != top.indices[:, 0]) & decided).sum())
