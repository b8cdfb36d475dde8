"""How sure a figure is: bootstrap 95 % intervals over items, and tests of two arms on the same items.

Items are resampled whole, so that an arm, its rival and blind reuse stay together: every interval is paired.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
NUM_RESAMPLES = 9999
SEED = 0

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A figure with its percentile-bootstrap interval; `low` and `high` are None where it can't be had:
    fewer than two items, or resamples in which the figure has no value.
    """

    value: float
    low: float | None
    high: float | None
    n: int

    def json(self) -> dict[str, Any]:
        """For reports."""
        return asdict(self)


@dataclass(frozen=True)
class Difference:
    """One arm's figure minus another's on the same items.

    Attributes:
        interval: of the difference.
        p_value: two-sided; what tests it is said where the difference is made.
    """

    interval: Interval
    p_value: float

    def json(self) -> dict[str, Any]:
        """For reports."""
        return {**self.interval.json(), "p_value": self.p_value}


def mean_interval(values: Sequence[float]) -> Interval:
    """Of the mean: accuracy, agreement, KL."""
    return _bootstrap([values], lambda v, axis=-1: v.mean(axis))


def median_interval(values: Sequence[float]) -> Interval:
    """Of the median: a figure that a few items can't carry."""
    return _bootstrap([values], lambda v, axis=-1: np.median(v, axis))


def eta_interval(arm_kl: Sequence[float], blind_kl: Sequence[float]) -> Interval | None:
    """Of η = 1 - KL(arm) / KL(blind), the ratio of means. None where blind has no gap to close."""
    if sum(blind_kl) <= 0:
        return None
    return _bootstrap([arm_kl, blind_kl], _eta)


def flip_recover_interval(
    answers: Sequence[int], blind: Sequence[int], reference: Sequence[int]
) -> Interval | None:
    """Of the share of flips that are restored, over the items that flip. None where none does."""
    restored = [float(a == r) for a, b, r in zip(answers, blind, reference, strict=True) if b != r]
    return mean_interval(restored) if restored else None


def eta_difference(
    arm_kl: Sequence[float], other_kl: Sequence[float], blind_kl: Sequence[float]
) -> Difference | None:
    """η(arm) - η(other). The test is Wilcoxon's signed ranks of the items' KL. None without a gap."""
    if sum(blind_kl) <= 0:
        return None
    interval = _bootstrap(
        [arm_kl, other_kl, blind_kl],
        lambda a, o, b, axis=-1: _eta(a, b, axis) - _eta(o, b, axis),
    )
    return Difference(interval, _wilcoxon(arm_kl, other_kl))


def accuracy_difference(arm: Sequence[bool], other: Sequence[bool]) -> Difference:
    """Accuracy(arm) - accuracy(other). The test is McNemar's, exact: of the items on which they differ."""
    from scipy.stats import binomtest

    a, b = (np.asarray(side, dtype=np.float64) for side in (arm, other))
    interval = _bootstrap([a - b], lambda v, axis=-1: v.mean(axis))
    wins, losses = int((a > b).sum()), int((a < b).sum())
    p_value = float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
    return Difference(interval, p_value)


def _eta(arm: Values, blind: Values, axis: int = -1) -> Any:
    gap = blind.mean(axis)
    left = arm.mean(axis)
    return 1.0 - np.divide(left, gap, out=np.full_like(left, np.nan), where=gap > 0)


def _wilcoxon(one: Sequence[float], other: Sequence[float]) -> float:
    from scipy.stats import wilcoxon

    differences = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    return float(wilcoxon(differences).pvalue) if differences.any() else 1.0


def _bootstrap(samples: Sequence[Any], statistic: Callable[..., Any]) -> Interval:
    from scipy.stats import DegenerateDataWarning, bootstrap

    data = [np.asarray(sample, dtype=np.float64) for sample in samples]
    if len({len(sample) for sample in data}) != 1 or not len(data[0]):
        raise ValueError(
            f"Invalid samples: expected one value an item, got {[len(s) for s in data]}"
        )
    n = len(data[0])
    value = float(np.squeeze(statistic(*(sample[None] for sample in data))))
    if n < 2:
        return Interval(value, None, None, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)  # said by None instead
        found = bootstrap(
            data,
            statistic,
            n_resamples=NUM_RESAMPLES,
            confidence_level=CONFIDENCE,
            method="percentile",
            paired=len(data) > 1,
            vectorized=True,
            rng=np.random.default_rng(SEED),
        ).confidence_interval
    low, high = float(found.low), float(found.high)
    if not np.isfinite(low + high):
        return Interval(value, None, None, n)
    return Interval(value, low, high, n)
