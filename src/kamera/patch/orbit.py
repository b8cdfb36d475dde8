"""The orbit patch: one patch for every ordering of a set of antecedents (paper §5)."""

from collections.abc import Sequence

import torch

from kamera.errors import ConfigError
from kamera.patch.deficit import Deficits


def mean_deficit(deficits: Sequence[Deficits]) -> Deficits:
    """The mean Δ over orderings, per channel; fit it as kind `"orbit"`.

    Every Δ is already in the un-rotated frame, which all orderings share, so that the mean needs
    no relocation. Summed in float64, rounded once to float32: the mean of equal deficits is that
    deficit, bit for bit.

    Raises:
        ConfigError: no deficit, or deficits that differ in channels or shape.
    """
    if not deficits:
        raise ConfigError("Invalid deficits: expected one for each ordering, got none")
    expected = {name: tuple(delta.shape) for name, delta in deficits[0].items()}
    for index, deltas in enumerate(deficits):
        got = {name: tuple(delta.shape) for name, delta in deltas.items()}
        if got != expected:
            raise ConfigError(f"Invalid shape of deficits[{index}]: expected {expected}, got {got}")
    means = {}
    for name in expected:
        total = torch.zeros_like(deficits[0][name], dtype=torch.float64)
        for deltas in deficits:
            total += deltas[name]
        means[name] = (total / len(deficits)).to(torch.float32)
    return means
