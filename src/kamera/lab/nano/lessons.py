"""Frames with the teacher's embeddings: what new towers learn, and new language models begin on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kamera.lab.nano.distill_stage import Lesson
from kamera.lab.nano.family import Family, load_family
from kamera.lab.nano.frame_pool import (
    FramePool,
    build_pool,
    draw_half,
    draw_item,
    draw_large,
    draw_legend,
    draw_needle,
    draw_small,
    draw_tile,
)
from kamera.lab.nano.levels import with_levels

WHOLE = {
    "legend": (draw_legend, 12_000, 10),
    "item": (draw_item, 3000, 11),
    "needle": (draw_needle, 9000, 12),
    "shell": (draw_small, 1500, 13),
}
"""The frames that windows are made of: how each kind is drawn, how many, and from which seed."""

PARTS = {
    "tile": (draw_tile, 10000, 1),
    "half": (draw_half, 6000, 2),
    "more tile": (draw_tile, 100_000, 201),
    "more half": (draw_half, 12_000, 202),
}
HELD_OUT = {
    "held_out": (draw_large("test", False), 600, 5),
    "held_small": (draw_small, 200, 6),
}
PER_SIDE = {"tile": 4, "half": 2}
"""For a family with one size of image alone: how many small frames a side make a whole one."""


def draw_pools(kinds: dict[str, Any], *, seed: int, share: float = 1.0) -> dict[str, FramePool]:
    """The pools of these kinds; `share` of their frames, for a short run."""
    return {
        name: build_pool(draw, max(64, round(count * share)), seed * 100 + offset)
        for name, (draw, count, offset) in kinds.items()
    }


@torch.no_grad()
def taught(teacher: Any, pool: FramePool) -> Lesson:
    """The pool's frames with the teacher's embeddings."""
    family = load_family("gqa")
    parts = pool.images.split(64)  # type: ignore[no-untyped-call]
    targets = torch.cat([family.embed(teacher, part) for part in parts])
    return Lesson(pool.images, targets, pool.labels)


def mosaic(pool: FramePool, per_side: int) -> FramePool:
    """Whole frames of `per_side` x `per_side` small ones each, every small one once."""
    count = len(pool.images) // per_side**2
    order = torch.randperm(count * per_side**2, generator=torch.Generator().manual_seed(1))
    rows = order.view(count, -1)
    labels = {name: _tiled(value[rows], per_side) for name, value in pool.labels.items()}
    small = pool.images.shape[1]
    parts = pool.images[rows].view(count, per_side, per_side, small, small, 3)
    images = parts.permute(0, 1, 3, 2, 4, 5).reshape(count, per_side * small, -1, 3)
    return FramePool([], images.contiguous(), labels)


def _tiled(values: Tensor, per_side: int) -> Tensor:
    side = int(values.shape[-1] ** 0.5)
    cells = values.view(len(values), per_side, per_side, side, side)
    return cells.permute(0, 1, 3, 2, 4).reshape(len(values), -1)


def adapted(lesson: Lesson, family: Family, onto: Sequence[Tensor]) -> Lesson:
    """The same lesson in the family's terms: its one image size, its deepstack levels."""
    if family.frame_px is not None:
        factor = family.frame_px // lesson.images.shape[1]
        labels = {name: _enlarged(value, factor) for name, value in lesson.labels.items()}
        targets = _enlarged(lesson.targets, factor)
        return replace(lesson, targets=targets, labels=labels)
    if onto:
        return replace(lesson, targets=with_levels(lesson.targets, onto))
    return lesson


def _enlarged(values: Tensor, factor: int) -> Tensor:
    """Each merged token `factor` x `factor` times: `[num_frames, tokens, ...]`."""
    if factor == 1:
        return values
    side = int(values.shape[1] ** 0.5)
    grid = values.reshape(len(values), side, side, *values.shape[2:])
    return grid.repeat_interleave(factor, 1).repeat_interleave(factor, 2).flatten(1, 2)
