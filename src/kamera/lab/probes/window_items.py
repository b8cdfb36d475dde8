"""Legend frames and items for the window operations: which legend tells, and which has left."""

from __future__ import annotations

from typing import Any

import numpy as np

from kamera.lab.tasks.draw import any_item, legends


def rng(number: int) -> np.random.Generator:
    """Of one item."""
    return np.random.default_rng([7, number])


def legends_and_item(
    num_items: int, num_frames: int, per_frame: int, *, told_by: int = -1
) -> list[list[Any]]:
    """Legend frames and an item whose color is in one of them, the last unless `told_by` says another."""
    items = []
    for number in range(num_items):
        draw = rng(number)
        before = legends(draw, "test", num_frames=num_frames, num_entries=num_frames * per_frame)
        colors = [tile.color for tile in before[told_by].tiles]
        items.append([*before, any_item(draw, "test", colors)])
    return items


def turned_over(number: int, told_by: int = 1) -> tuple[list[Any], list[Any], Any]:
    """Two old and two new legend frames; both give the item's color a digit, another one.

    The first old frame tells the old digit, and the new frame `told_by` the new one.
    """
    draw = rng(1000 + number)
    while True:
        old = legends(draw, "test", num_frames=2, num_entries=4)
        new = legends(draw, "test", num_frames=2, num_entries=4)
        now = {tile.color: tile.digit for tile in new[told_by].tiles}
        was = {tile.color: tile.digit for tile in old[0].tiles}
        both = [color for color in now if color in was and now[color] != was[color]]
        if both:
            return old, new, any_item(draw, "test", both)
