"""A gate that reuses a stored patch when its antecedent has drifted little: how often that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kamera.lab.metrics_paired import SEED
from kamera.lab.probes.outcome import Outcome
from kamera.lab.reproductions.figures import JsonFigure, plain

NUM_RESAMPLES = 1999
SAFE_ETA = 0.8
"""A stale patch is safe where it closes this share of an item's gap."""
SAFE_KL = 0.001
"""Nats: or where its KL is no more than the paper's residual of a patch (section 6)."""
COVERAGE = 0.5
"""Of the pairs: what a gate must reuse to be of use."""

Grid = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Drifts:
    """Pairs of a stored patch and a changed antecedent.

    Attributes:
        divergence: [items, perturbations].
        unsafe: the same, 1 where the stale patch isn't safe.
    """

    divergence: Grid
    unsafe: Grid


def drifts_of(outcomes: Sequence[Outcome]) -> Drifts:
    """One outcome a perturbation, each with `blind`, `stale` and `divergence`."""
    divergence = np.array([one.deficits["divergence"] for one in outcomes]).T
    stale, blind = (np.array([one.kls[arm] for one in outcomes]).T for arm in ("stale", "blind"))
    safe = (stale <= (1 - SAFE_ETA) * blind) | (stale <= SAFE_KL)
    return Drifts(divergence, (~safe).astype(np.float64))


def false_reuse_curve(drifts: Drifts) -> tuple[list[float], list[float]]:
    """Coverage, and the share of what is reused that is unsafe, as the gate opens."""
    order = np.argsort(drifts.divergence, axis=None, kind="stable")
    unsafe = drifts.unsafe.ravel()[order]
    count = np.arange(1, len(unsafe) + 1)
    return (count / len(unsafe)).tolist(), (unsafe.cumsum() / count).tolist()


def least_false_reuse(drifts: Drifts) -> float:
    """The lowest share that is wrongly reused at a coverage of COVERAGE or more."""
    coverage, wrong = false_reuse_curve(drifts)
    return min(w for c, w in zip(coverage, wrong, strict=True) if c >= COVERAGE)


def median_gap(drifts: Drifts) -> float:
    """Median divergence of the unsafe pairs minus that of the safe ones; NaN without one of them."""
    unsafe = drifts.unsafe.astype(bool)
    if not unsafe.any() or unsafe.all():
        return float("nan")
    return float(np.median(drifts.divergence[unsafe]) - np.median(drifts.divergence[~unsafe]))


def over_items(drifts: Drifts, statistic: Callable[[Drifts], float]) -> JsonFigure:
    """With its percentile-bootstrap interval: items are resampled with all their perturbations."""
    value, n = statistic(drifts), len(drifts.divergence)
    if np.isnan(value):
        return plain(None, n)
    draws = np.random.default_rng(SEED).integers(n, size=(NUM_RESAMPLES, n))
    found = [statistic(Drifts(drifts.divergence[draw], drifts.unsafe[draw])) for draw in draws]
    if n < 2 or np.isnan(found).any():
        return plain(value, n)
    low, high = np.percentile(found, [2.5, 97.5])
    return {"value": value, "low": float(low), "high": float(high), "n": n}
