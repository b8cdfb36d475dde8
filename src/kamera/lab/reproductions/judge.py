"""Which claims hold, on which model: what a page, the report and the command line show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kamera.lab.reproductions.claim import Claim, Figure, Verdict
from kamera.lab.reproductions.reproduction import Models, Reproduction

Section = dict[str, Any]
"""Of the report: `models` and how they were measured."""
ORDER: tuple[Verdict, ...] = ("does not hold", "holds", "shown", "not measured")
"""As they are counted and shown: what breaks a claim first."""
UNKNOWN = "Not known"
"""Of a claim that gives no reason."""


@dataclass(frozen=True)
class Judged:
    """One claim on every model.

    Attributes:
        figures: model name -> its figure; None where it has none.
        verdicts: model name -> its verdict.
    """

    claim: Claim
    figures: Mapping[str, Figure | None]
    verdicts: Mapping[str, Verdict]

    @property
    def verdict(self) -> Verdict:
        """Of the claim: one model on which it does not hold decides, then one on which it holds."""
        found = set(self.verdicts.values())
        return next((verdict for verdict in ORDER if verdict in found), "not measured")


def measured(section: Section) -> Models:
    """Models that have figures."""
    return {name: model for name, model in section["models"].items() if "failed" not in model}


def failures(section: Section) -> dict[str, str]:
    """Model name -> why it has none."""
    models = section["models"].items()
    return {name: str(model["failed"]) for name, model in models if "failed" in model}


def judge(one: Reproduction, section: Section) -> list[Judged]:
    """Every claim, in the order of the page. A model that failed is not measured."""
    figures = {name: model.get("figures", {}) for name, model in section["models"].items()}
    return [
        Judged(
            claim,
            {name: of_model.get(claim.key) for name, of_model in figures.items()},
            {name: claim.verdict(of_model) for name, of_model in figures.items()},
        )
        for claim in one.claims
    ]


def broken(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Why ours may differ -> the claims that don't hold, for which that is said."""
    found: dict[str, list[Judged]] = {}
    for row in judged:
        if row.verdict == "does not hold":
            found.setdefault(row.claim.why.rstrip(".") or UNKNOWN, []).append(row)
    return found


def count(judged: Sequence[Judged]) -> dict[Verdict, int]:
    """Verdict -> how many, a claim on a model being one."""
    found = [verdict for row in judged for verdict in row.verdicts.values()]
    return {verdict: found.count(verdict) for verdict in ORDER}


def shown(figure: Figure | None) -> str:
    """A figure with its interval, where it has one."""
    if figure is None or figure["value"] is None:
        return "–"
    value = number(figure["value"])
    if figure["low"] is None or figure["high"] is None:
        return value
    return f"{value} [{number(figure['low'])}, {number(figure['high'])}]"


def number(value: float) -> str:
    """Three decimals, or one digit where those show none; large ones short."""
    if abs(value) >= 1000:
        return f"{value:.3g}" if abs(value) >= 1e6 else f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.0e}"
