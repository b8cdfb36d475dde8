"""Single-hop readout, the control: reuse must not hurt it (paper, section 2)."""

import numpy as np

from kamera.lab.tasks.draw import any_item, legends
from kamera.lab.tasks.sources import COLORS, SHAPES, Split
from kamera.lab.tasks.task import Item, Task

COLOR_QUESTION = "what color is the shape?"
SHAPE_QUESTION = "what shape is in the image?"


def make(rng: np.random.Generator, split: Split) -> Item:
    """A legend frame, then an easy-vqa picture, and one of easy-vqa's own questions about it."""
    before = legends(rng, split, num_frames=1, num_entries=int(rng.integers(1, 5)))
    picture = any_item(rng, split)
    if rng.integers(2):
        question, answer, choices = COLOR_QUESTION, picture.color, tuple(COLORS)
    else:
        question, answer, choices = SHAPE_QUESTION, picture.shape, SHAPES
    assert answer is not None
    return Item((*before, picture), question, answer, choices, target=1)


TASK = Task("readout", binds=False, make=make)
