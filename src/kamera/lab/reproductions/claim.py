"""`Claim`: one figure of the paper, the rule that ours is held to, and why ours may break it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Figure = Mapping[str, Any]
"""`value`, `low`, `high` (None where there is no interval) and `n`."""
Verdict = Literal["holds", "does not hold", "not measured", "shown"]


@dataclass(frozen=True)
class Rule:
    """What a figure must be for the paper's claim to hold on ours.

    Attributes:
        text: in words, as on the page.
        holds: None for a figure that is only shown beside the paper's: the paper claims nothing of it.
    """

    text: str
    holds: Callable[[Figure], bool] | None


@dataclass(frozen=True)
class Claim:
    """One row of a page.

    Attributes:
        label: what is measured.
        key: of the model's `figures`.
        paper: the paper's figure, as printed there, with its model where it has several.
        rule: what decides.
        why: why ours may differ: said beside a row that does not hold, never beside one that does. Where
            nothing that was measured says why, it is left empty, and the page says `Not known`.
    """

    label: str
    key: str
    paper: str
    rule: Rule
    why: str = ""

    def verdict(self, figures: Mapping[str, Figure | None]) -> Verdict:
        """Of one model."""
        figure = figures.get(self.key)
        if figure is None or figure["value"] is None:
            return "not measured"
        if self.rule.holds is None:
            return "shown"
        return "holds" if self.rule.holds(figure) else "does not hold"


SHOWN = Rule("–", None)


def at_least(bar: float) -> Rule:
    """The figure itself, whatever its interval."""
    return Rule(f"at least {bar:g}", lambda figure: figure["value"] >= bar)


def at_most(bar: float) -> Rule:
    """The figure itself, whatever its interval."""
    return Rule(f"at most {bar:g}", lambda figure: figure["value"] <= bar)


def between(low: float, high: float) -> Rule:
    """The figure itself, ends included."""
    return Rule(f"{low:g} to {high:g}", lambda figure: low <= figure["value"] <= high)


def surely_above(bar: float) -> Rule:
    """The whole interval lies above; a figure without one doesn't hold."""
    return Rule(
        f"interval above {bar:g}", lambda figure: figure["low"] is not None and figure["low"] > bar
    )


def surely_below(bar: float) -> Rule:
    """The whole interval lies below; a figure without one doesn't hold."""
    return Rule(
        f"interval below {bar:g}",
        lambda figure: figure["high"] is not None and figure["high"] < bar,
    )


def reaches(bar: float) -> Rule:
    """The interval isn't wholly above; a figure without one doesn't hold."""
    return Rule(
        f"interval reaches {bar:g} or below",
        lambda figure: figure["low"] is not None and figure["low"] <= bar,
    )
