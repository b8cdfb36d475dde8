"""The orbit patch: one patch for every ordering of a set of antecedents (paper §5)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from kamera.errors import ConfigError
from kamera.patch.deficit import Deficits


class RunningMean:
    """The mean Δ over orderings as they come, per channel: none of them is held but their sum.

    Every Δ is already in the un-rotated frame, which all orderings share, so that the mean needs
    no relocation. Summed in float64, rounded once to float32: the mean of equal deficits is that
    deficit, bit for bit.
    """

    def __init__(self) -> None:
        self._count = 0
        self._totals: dict[str, Tensor] = {}

    def add(self, deltas: Deficits) -> None:
        """One ordering's.

        Raises:
            ConfigError: it differs from the first in channels or shape.
        """
        if not self._count:
            self._totals = {n: torch.zeros_like(d, dtype=torch.float64) for n, d in deltas.items()}
        expected = {name: tuple(total.shape) for name, total in self._totals.items()}
        got = {name: tuple(delta.shape) for name, delta in deltas.items()}
        if got != expected:
            raise ConfigError(
                f"Invalid shape of deficits[{self._count}]: expected {expected}, got {got}"
            )
        for name, delta in deltas.items():
            self._totals[name] += delta
        self._count += 1

    def mean(self) -> Deficits:
        """Of what was added.

        Raises:
            ConfigError: nothing was.
        """
        if not self._count:
            raise ConfigError("Invalid deficits: expected one for each ordering, got none")
        return {n: (total / self._count).to(torch.float32) for n, total in self._totals.items()}


def mean_deficit(deficits: Sequence[Deficits]) -> Deficits:
    """The mean Δ over orderings, per channel; fit it as kind `"orbit"`. See `RunningMean`.

    Raises:
        ConfigError: no deficit, or deficits that differ in channels or shape.
    """
    running = RunningMean()
    for deltas in deficits:
        running.add(deltas)
    return running.mean()
