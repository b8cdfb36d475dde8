"""The shell game: a ball under one of three cups, then swaps; every later frame's KV holds the state."""

import numpy as np

from kamera.lab.tasks.frames import CUPS, SWAPS, Frame, ball, swap
from kamera.lab.tasks.sources import Split
from kamera.lab.tasks.task import NONE, Item, Task

QUESTION = "where is the ball?"


def states(frames: list[Frame]) -> list[str]:
    """Where the ball is after each frame, as far as these frames tell."""
    cup: int | None = None
    seen = []
    for frame in frames:
        if frame.cup is not None:
            cup = frame.cup
        elif frame.swap is not None and cup is not None:
            a, b = SWAPS[frame.swap]
            cup = {a: b, b: a}.get(cup, cup)
        seen.append(NONE if cup is None else CUPS[cup])
    return seen


def make(rng: np.random.Generator, split: Split) -> Item:
    """Three to five frames: the ball is shown, then two cups change places in each frame."""
    del split  # drawn scenes: the split is in the seed
    frames = [ball(int(rng.integers(3)), rng)]
    frames += [swap(int(rng.integers(3)), rng) for _ in range(int(rng.integers(2, 5)))]
    return Item(tuple(frames), QUESTION, states(frames)[-1], (*CUPS, NONE), len(frames) - 1)


TASK = Task("shell_game", binds=True, make=make)
