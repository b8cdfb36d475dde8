"""Figures with their intervals, from what was measured item by item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kamera.lab.evaluation import BLIND, REFERENCE, Tally
from kamera.lab.metrics_paired import (
    Difference,
    Interval,
    accuracy_difference,
    eta_difference,
    eta_interval,
    flip_recover_interval,
    mean_interval,
    median_interval,
)

JsonFigure = dict[str, Any]
"""`value`, `low`, `high`, `n`."""


def plain(value: float | None, n: int) -> JsonFigure:
    """A figure without an interval: a maximum, a count, a share of bytes."""
    return {"value": value, "low": None, "high": None, "n": n}


def mean_of(values: Sequence[float]) -> JsonFigure:
    """The mean over items, bootstrap 95 %; no value without items."""
    return mean_interval(list(values)).json() if values else plain(None, 0)


def median_of(values: Sequence[float]) -> JsonFigure:
    """The median over items, bootstrap 95 %; no value without items."""
    return median_interval(list(values)).json() if values else plain(None, 0)


def eta_of(kls: Sequence[float], blind: Sequence[float]) -> JsonFigure:
    """η with its paired interval; no value where blind has no gap."""
    return _json(eta_interval(kls, blind), len(kls))


def flips_of(answers: Sequence[int], blind: Sequence[int], reference: Sequence[int]) -> JsonFigure:
    """Flip-recover; no value where no answer flips."""
    return _json(flip_recover_interval(answers, blind, reference), 0)


def eta_gap_of(one: Sequence[float], other: Sequence[float], blind: Sequence[float]) -> JsonFigure:
    """η(one) - η(other), paired, with Wilcoxon's `p_value`."""
    return _json(eta_difference(one, other, blind), len(one))


def accuracy_gap_of(one: Tally, other: Tally) -> JsonFigure:
    """Accuracy(one) - accuracy(other), paired, with McNemar's exact `p_value`."""
    return accuracy_difference(one.correct, other.correct).json()


def agreement_of(tallies: dict[str, Tally], arm: str) -> JsonFigure:
    """The share of the items on which the arm gives re-prefill's answer, right or wrong."""
    answers = zip(tallies[arm].answers, tallies[REFERENCE].answers, strict=True)
    return mean_of([float(ours == theirs) for ours, theirs in answers])


def bytes_share_of(tallies: dict[str, Tally], arm: str) -> JsonFigure:
    """What the arm keeps for a window alone over that window's KV; the sum over the items."""
    whole = tallies[REFERENCE]
    return plain(tallies[arm].num_bytes / whole.num_bytes, len(whole.kls))


def arm_figures(tallies: dict[str, Tally], arm: str) -> dict[str, JsonFigure]:
    """`ARM: accuracy`, `ARM: kl`, `ARM: eta`, `ARM: flips` of one arm."""
    tally, blind, reference = tallies[arm], tallies[BLIND], tallies[REFERENCE]
    return {
        f"{arm}: accuracy": mean_of([float(right) for right in tally.correct]),
        f"{arm}: kl": mean_of(tally.kls),
        f"{arm}: eta": eta_of(tally.kls, blind.kls),
        f"{arm}: flips": flips_of(tally.answers, blind.answers, reference.answers),
    }


def _json(found: Interval | Difference | None, n: int) -> JsonFigure:
    return plain(None, n) if found is None else found.json()
