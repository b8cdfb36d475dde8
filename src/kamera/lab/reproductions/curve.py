"""`Curve`: means over items at several x, each with its interval; what lines are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kamera.channels import channels_of
from kamera.lab.reproductions.chart import Series
from kamera.lab.reproductions.figures import JsonFigure, eta_of, mean_of

Places = Sequence[int] | Sequence[float]
Curve = dict[str, Any]
"""`x`, `y`, `low`, `high` (lists of one length) and `n`."""


def curve_of(x: Places, figures: Sequence[JsonFigure]) -> Curve:
    """One figure at each x."""
    ends = {"y": "value", "low": "low", "high": "high"}
    lists = {end: [figure[name] for figure in figures] for end, name in ends.items()}
    return {
        "x": [float(place) for place in x],
        **lists,
        "n": max((figure["n"] for figure in figures), default=0),
    }


def mean_curve(x: Places, rows: Sequence[Sequence[float]]) -> Curve:
    """Means over the rows, one row an item and one column an x."""
    return curve_of(x, [mean_of(column) for column in zip(*rows, strict=True)])


def eta_curve(x: Places, rows: Sequence[Sequence[float]], blind: Sequence[float]) -> Curve:
    """η at each x, of KL by item (row) and x (column)."""
    return curve_of(x, [eta_of(column, blind) for column in zip(*rows, strict=True)])


def line(name: str, curve: Curve) -> Series:
    """As it is drawn."""
    return Series(name, curve["x"], curve["y"], curve["low"], curve["high"])


def depths(num_layers: int) -> list[float]:
    """Each layer's place from 0, the first, to 1, the last: models differ in depth."""
    return [layer / max(1, num_layers - 1) for layer in range(num_layers)]


def content_channel(names: Sequence[str]) -> str:
    """The one that doesn't rotate: values, or the latent."""
    return next(channel.name for channel in channels_of(list(names)) if not channel.rotates)
