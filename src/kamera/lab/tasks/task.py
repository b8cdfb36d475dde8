"""What a task is: a seeded stream of items, each a few frames, one question and its answer."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kamera.lab.tasks.frames import Frame
from kamera.lab.tasks.sources import COLORS, SHAPES, Split

DIGITS = tuple(str(d) for d in range(10))
NONE = "none"


@dataclass(frozen=True)
class Item:
    """One question over an ordered window of frames.

    `target` is the index of the frame whose KV an arm reuses: B, with the frames before it as its
    antecedent A. `choices` are the task's possible answers, each one token.
    """

    frames: tuple[Frame, ...]
    question: str
    answer: str
    choices: tuple[str, ...]
    target: int


@dataclass(frozen=True)
class Task:
    """A named task; `make(rng, split)` draws one item."""

    name: str
    binds: bool
    """Whether the answer needs cross-chunk binding (the single-hop control and the needle don't)."""
    make: Callable[[np.random.Generator, Split], Item]

    def items(self, num_items: int, *, split: Split = "test", seed: int = 0) -> list[Item]:
        """Draw `num_items` items; the same arguments give the same items, item by item."""
        return [
            self.make(np.random.default_rng([seed, i, _salt(self.name)]), split)
            for i in range(num_items)
        ]


def _salt(name: str) -> int:
    return int.from_bytes(name.encode()[:8], "little") & 0x7FFFFFFF


ANSWERS = (*COLORS, *SHAPES, *DIGITS, "left", "middle", "right", NONE)
"""Every answer of every task; the tokenizers of the nano checkpoints hold each as one token."""
