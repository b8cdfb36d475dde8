"""Budgets: how many of a chunk's tokens an arm may give back, as a share, a count, or in a patch's bytes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from kamera.errors import ConfigError


class Budget(ABC):
    """Tokens for one chunk. `str` of it is part of an arm's name."""

    @abstractmethod
    def tokens(self, num_tokens: int, features: Sequence[int]) -> int:
        """At most `num_tokens`, those of the chunk; `features` are F of each channel."""


@dataclass(frozen=True)
class Share(Budget):
    """A share of the tokens, rounded up.

    Raises:
        ConfigError: not between 0 and 1.
    """

    share: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise ConfigError(f"Invalid share: expected 0 to 1, got {self.share}")

    def __str__(self) -> str:
        return f"{100 * self.share:g}%"

    def tokens(self, num_tokens: int, features: Sequence[int]) -> int:
        return math.ceil(self.share * num_tokens)


@dataclass(frozen=True)
class Count(Budget):
    """So many tokens, or all where there are fewer.

    Raises:
        ConfigError: below 0.
    """

    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ConfigError(f"Invalid count: expected at least 0, got {self.count}")

    def __str__(self) -> str:
        return str(self.count)

    def tokens(self, num_tokens: int, features: Sequence[int]) -> int:
        return min(self.count, num_tokens)


@dataclass(frozen=True)
class SameBytes(Budget):
    """As many tokens as take the bytes of a rank-m patch, rounded down (paper Table 6: rank 16 is 31 tokens).

    A patch keeps m · (T + F) numbers of each layer and channel, a token F. m is clipped to a channel's
    full rank, as the patch's is.

    Raises:
        ConfigError: a rank below 1.
    """

    rank: int

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ConfigError(f"Invalid rank: expected at least 1, got {self.rank}")

    def __str__(self) -> str:
        return f"= rank {self.rank}"

    def tokens(self, num_tokens: int, features: Sequence[int]) -> int:
        patch = sum(min(self.rank, num_tokens, f) * (num_tokens + f) for f in features)
        return min(patch // sum(features), num_tokens)
