"""`Reproduction`: one table or figure of the paper, what it measured, and how ours is made and judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kamera.lab.reproductions.chart import Chart
from kamera.lab.reproductions.claim import Claim
from kamera.lab.reproductions.subject import Subject

ModelFigures = dict[str, Any]
"""One model's part of the section: `figures` (key -> value, low, high, n), and what charts are drawn from."""
Models = dict[str, ModelFigures]
"""Model name -> its figures."""


def _no_charts(models: Models) -> list[Chart]:
    del models
    return []


@dataclass(frozen=True)
class Reproduction:
    """One of them.

    Attributes:
        name: as in `kamera lab NAME`: table1, fig3, appendix-d.
        title: a few words.
        paper: what the paper measured and on what. Markdown, one paragraph.
        ours: what ours measures and on what, and where that differs. Markdown, one paragraph.
        run: one model's figures.
        claims: what is judged, in the order of the page; each names a key of `figures`.
        charts: drawn from the section alone, so that a report can be drawn again without a model.
    """

    name: str
    title: str
    paper: str
    ours: str
    run: Callable[[Subject], ModelFigures]
    claims: tuple[Claim, ...]
    charts: Callable[[Models], list[Chart]] = _no_charts
