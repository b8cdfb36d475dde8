"""Legend to item: the legend gives each color a digit; the item's digit is bound in the item's KV."""

import numpy as np

from kamera.lab.tasks.draw import any_item, legends
from kamera.lab.tasks.frames import Frame
from kamera.lab.tasks.sources import Split
from kamera.lab.tasks.task import DIGITS, NONE, Item, Task

QUESTION = "which digit goes with the shape?"


def bound_digit(before: list[Frame], picture: Frame) -> str:
    """The digit that the legend frames in `before` give to the picture's color, or none."""
    for frame in before:
        for tile in frame.tiles:
            if tile.color == picture.color:
                return str(tile.digit)
    return NONE


def make(
    rng: np.random.Generator, split: Split, *, num_frames: int = 1, num_entries: int | None = None
) -> Item:
    """Legend frames, then one easy-vqa picture in one of their colors."""
    entries = num_entries or int(rng.integers(max(2, num_frames), 5))
    before = legends(rng, split, num_frames=num_frames, num_entries=entries)
    colors = [tile.color for frame in before for tile in frame.tiles]
    picture = any_item(rng, split, colors)
    answer = bound_digit(before, picture)
    return Item((*before, picture), QUESTION, answer, (*DIGITS, NONE), target=num_frames)


TASK = Task("binding", binds=True, make=make)
