"""Needle retrieval: one frame of several has a star; which digit does it show?"""

import numpy as np

from kamera.lab.tasks.draw import any_needle
from kamera.lab.tasks.sources import Split
from kamera.lab.tasks.task import DIGITS, Item, Task

QUESTION = "which digit is beside the star?"


def make(rng: np.random.Generator, split: Split) -> Item:
    """Three to five digit frames, one of them starred."""
    num_frames = int(rng.integers(3, 6))
    at = int(rng.integers(num_frames))
    frames = tuple(any_needle(rng, split, starred=i == at) for i in range(num_frames))
    return Item(frames, QUESTION, str(frames[at].digit), DIGITS, target=max(at, 1))


TASK = Task("needle", binds=False, make=make)
