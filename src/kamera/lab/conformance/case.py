"""`Case`: one tiny model of the matrix, as a row: what it is, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from kamera.lab.conformance.vocabulary import Vocabulary

MediaInputs = Callable[[Any, int], Mapping[str, Tensor]]
"""(config, seed) -> what a processor would hand to the tower for one random item."""


@dataclass(frozen=True)
class Case:
    """A tiny random model.

    Attributes:
        model_type: names the family's row.
        variant: what the matrix prints besides the rotary scheme, which is read off the model.
        config: makes the config over a tokenizer's ids; a function, since a config is mutable.
        media: kind -> inputs of one item; the kinds that the windows hold.
        seed: of the weights. A mixture of experts has one under which no token's experts are so close
            that rounding decides between them: the check `routing` counts those that change.
        join: the dimension along which two items' inputs are put together, where it isn't the first.
        mixes: the model's own forward takes media of several kinds in one window. Else A is of B's kind.
        counts: the model counts the window's positions as it was trained to; else it is given ours.
    """

    model_type: str
    variant: str
    config: Callable[[Vocabulary], Any]
    media: Mapping[str, MediaInputs] = field(default_factory=dict)
    seed: int = 0
    join: int = 0
    mixes: bool = True
    counts: bool = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of chunk B."""
        return (*self.media, "text")
