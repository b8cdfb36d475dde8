"""How many of A's keys does B look at? The cross-block attention's energy by key (paper Figure 3c)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kamera.lab.probes.case import Case
from kamera.lab.probes.cross_attention import cross_attention
from kamera.lab.probes.token_diffuseness import share_for


@dataclass(frozen=True)
class LandmarkKeys:
    """A key's energy is the sum of its squared weights over B's tokens and the query heads.

    Attributes:
        keys: by layer, the fewest keys of A that hold 90 % of the energy, mean over the cases.
        median: over layers and cases.
        median_share: the same as a share of A's tokens.
        mass: by layer, the share of B's softmax mass that lies on A, mean over the cases.
        n: cases.
    """

    keys: tuple[float, ...]
    median: float
    median_share: float
    mass: tuple[float, ...]
    n: int


def probe_landmark_keys(cases: Iterable[Case]) -> LandmarkKeys:
    """Rank A's keys in each layer."""
    keys, shares, mass = [], [], []
    for case in cases:
        layers = cross_attention(case)
        needed = [share_for(weights.square().sum((0, 1))) for weights in layers]
        shares.append(needed)
        keys.append([round(share * case.span[0]) for share in needed])
        mass.append([float(weights.sum(-1).mean()) for weights in layers])
    return LandmarkKeys(
        tuple(np.mean(keys, axis=0).tolist()),
        float(np.median(keys)),
        float(np.median(shares)),
        tuple(np.mean(mass, axis=0).tolist()),
        len(keys),
    )
