"""`Chart`: what is drawn, without how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Series:
    """One line or group of bars.

    Attributes:
        name: in the legend.
        x: numbers for lines, labels for bars.
        y: as many; None where there is no figure.
        low, high: ends of the intervals, where there are such.
        paper: whether it is the paper's own, which is drawn dashed or hatched.
    """

    name: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    paper: bool = False


@dataclass(frozen=True)
class Chart:
    """One panel.

    Attributes:
        kind: `lines` over numbers, or `bars` over labels.
        levels: horizontal lines by name, e.g. blind reuse.
        log_x, log_y: a logarithmic axis (base 2 for x).
    """

    title: str
    kind: Literal["lines", "bars"]
    x_label: str
    y_label: str
    series: Sequence[Series]
    levels: Sequence[tuple[str, float]] = ()
    log_x: bool = False
    log_y: bool = False
