"""Intervals and paired tests against what can be known of them by other means."""

import math

import numpy as np
import pytest

from kamera.lab import metrics_paired
from kamera.lab.metrics import eta, flip_recover
from kamera.lab.metrics_paired import (
    accuracy_difference,
    eta_difference,
    eta_interval,
    flip_recover_interval,
    mean_interval,
    median_interval,
)


def draw(seed: int, size: int) -> list[float]:
    return np.random.default_rng(seed).gamma(0.5, 1.0, size).tolist()


def test_the_interval_of_a_mean_is_the_normal_one_for_many_items() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, 4000)
    found = mean_interval(values.tolist())
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.1 * half)
    assert found.n == 4000


def test_intervals_cover_at_their_rate() -> None:
    """η of 60 items drawn again and again: the true value lies inside about 95 times in 100."""
    true = 1 - 0.2
    hits = 0
    for seed in range(100):
        blind = np.random.default_rng(seed).gamma(2.0, 1.0, 60)
        arm = blind * np.random.default_rng(1000 + seed).uniform(0.0, 0.4, 60)
        found = eta_interval(arm.tolist(), blind.tolist())
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= true <= found.high
    assert 85 <= hits <= 100  # binomial: fewer than 85 once in 100,000 at 95 %


def test_eta_is_the_plain_metrics() -> None:
    arm, blind = draw(1, 32), draw(2, 32)
    found = eta_interval(arm, blind)
    assert found is not None
    assert found.value == pytest.approx(eta(arm, blind))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_flip_recover_is_the_plain_metrics_over_flips_alone() -> None:
    answers, blind, reference = [1, 2, 3, 4, 9], [1, 5, 5, 5, 5], [1, 2, 3, 4, 5]
    found = flip_recover_interval(answers, blind, reference)
    assert found is not None
    assert (found.value, found.n) == flip_recover(answers, blind, reference) == (1.0, 3)
    assert (found.low, found.high) == (1.0, 1.0)
    assert flip_recover_interval(reference, reference, reference) is None


def test_without_a_gap_there_is_no_eta() -> None:
    assert eta_interval([0.1, 0.2], [0.0, 0.0]) is None
    assert eta_difference([0.1, 0.2], [0.1, 0.3], [0.0, 0.0]) is None


def test_few_items_have_no_interval() -> None:
    one = mean_interval([2.0])
    assert (one.value, one.low, one.high, one.n) == (2.0, None, None, 1)
    scarce = eta_interval([0.0, 0.1], [0.0, 1.0])  # some resamples have no gap
    assert scarce is not None
    assert (scarce.value, scarce.low) == (pytest.approx(0.9), None)
    with pytest.raises(ValueError, match="one value an item"):
        mean_interval([])


def test_a_paired_difference_is_surer_than_two_intervals() -> None:
    """Both arms fail on the same items: their difference is told though their intervals overlap."""
    blind = np.random.default_rng(3).gamma(1.0, 1.0, 80)
    share = np.random.default_rng(4).uniform(0.0, 0.8, 80)
    arm, other = blind * share, blind * (share + 0.05)
    found = eta_difference(arm.tolist(), other.tolist(), blind.tolist())
    assert found is not None
    assert found.interval.value == pytest.approx(0.05)
    assert found.interval.low == pytest.approx(0.05)
    assert found.p_value < 1e-6
    one, two = (
        eta_interval(arm.tolist(), blind.tolist()),
        eta_interval(other.tolist(), blind.tolist()),
    )
    assert one is not None
    assert two is not None
    assert one.low is not None
    assert two.high is not None
    assert one.low < two.high


def test_equal_arms_do_not_differ() -> None:
    kls, right = draw(5, 20), [True, False] * 10
    by_eta, by_accuracy = eta_difference(kls, kls, draw(6, 20)), accuracy_difference(right, right)
    assert by_eta is not None
    for found in (by_eta, by_accuracy):
        assert (found.interval.value, found.p_value) == (0.0, 1.0)


def test_mcnemar_counts_the_items_on_which_they_differ() -> None:
    """8 wins and 2 losses: twice the binomial tail of 8 or more of 10."""
    arm = [True] * 8 + [False] * 2 + [True] * 50
    other = [False] * 8 + [True] * 2 + [True] * 50
    found = accuracy_difference(arm, other)
    tail = sum(math.comb(10, k) for k in (8, 9, 10)) / 2**10
    assert found.interval.value == pytest.approx(0.1)
    assert found.p_value == pytest.approx(2 * tail)


def test_intervals_are_the_same_every_time() -> None:
    values = draw(7, 30)
    assert mean_interval(values) == mean_interval(values)
    assert mean_interval(values).json().keys() == {"value", "low", "high", "n"}
    assert metrics_paired.CONFIDENCE == 0.95


def test_the_interval_of_a_median_covers_it_and_one_far_item_moves_neither() -> None:
    values = draw(8, 41)
    found, with_far = median_interval(values), median_interval([*values[:-1], 1e9])
    assert found.value == sorted(values)[20]
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    assert with_far.high is not None
    assert with_far.high < 1e3
