"""Charts as one SVG picture: panels side by side, one legend below them."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kamera.lab.reproductions.chart import Chart, Series

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#8C6D31")
"""Okabe and Ito's and two more, told apart by the color-blind."""
MARKERS = "osD^vP*X"
PAPER, LEVEL = "#444444", "#999999"
DASHES: tuple[Any, ...] = ("--", ":", "-.", (0, (8, 2)), (0, (1, 3)))
HATCHES = ("////", "\\\\\\\\", "----")
PANEL = (4.6, 3.1)
"""Inches of a panel of lines."""
BAR = 0.17
"""Inches of a bar that lies."""
BELOW = -0.45
"""Inches from a panel's axis to its own legend: the ticks' labels and the axis' stand between."""
OWN_LEGEND = 0.5
"""Inches that it takes."""
CLOSEST = 0.12
"""Of a logarithmic axis, from tick to tick."""
LABEL_LEN = 32
"""Characters of an axis' label, above which it is broken."""
MOST_STANDING = 42
"""Characters of all labels together, above which bars lie and the labels stand beside them."""
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.formatter.useoffset": False,
    "text.parse_math": False,  # a model's name may hold a dollar
    "svg.fonttype": "none",
}


def digest_of(charts: Sequence[Chart]) -> str:
    """Of what is drawn, whatever draws it."""
    text = json.dumps([asdict(chart) for chart in charts], default=list)
    return hashlib.sha256(text.encode()).hexdigest()


def draw_svg(charts: Sequence[Chart]) -> str:
    """An `svg` element with nothing outside of it; the digest of what is drawn stands in it."""
    from matplotlib import rc_context

    digest = digest_of(charts)
    with rc_context({**_STYLE, "svg.hashsalt": digest}):
        text = io.StringIO()
        figure_of(charts).savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return svg.replace(">", f">\n<!-- drawn from {digest} -->", 1)


def figure_of(charts: Sequence[Chart]) -> Any:
    """Matplotlib's figure, of no window and no global state."""
    from matplotlib.figure import Figure
    from matplotlib.transforms import ScaledTranslation

    columns = min(len(charts), 2)
    rows = math.ceil(len(charts) / columns)
    together = len({frozenset(_names(chart)) for chart in charts}) == 1
    heights = [
        max(_height(chart) for chart in charts[row * columns : (row + 1) * columns])
        + (0 if together else OWN_LEGEND)
        for row in range(rows)
    ]
    figure = Figure(figsize=(columns * PANEL[0], sum(heights)), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, height_ratios=heights).ravel()
    styles = _styles(charts)
    legends = []
    for axes, chart in zip(panels, charts, strict=False):
        legends.append((_lines if chart.kind == "lines" else _bars)(axes, chart, styles))
        axes.set_title(chart.title)
    for axes in panels[len(charts) :]:
        axes.remove()
    if together:
        _legend(figure, legends[0], columns, loc="outside lower center")
    else:  # a legend of all would hide which panel a name is of
        for axes, legend in zip(panels, legends, strict=False):
            below = axes.transAxes + ScaledTranslation(0, BELOW, figure.dpi_scale_trans)
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below}
            _legend(axes, legend, 1, **place)
    return figure


def _legend(owner: Any, shown: Mapping[str, Any], columns: int, **place: Any) -> None:
    """Of a figure or a panel; none where there is one name."""
    if len(shown) < 2:
        return
    widest = max(len(name) for name in shown)
    fit = max(1, int(columns * PANEL[0] * 13 / (widest + 5)))
    number = min(fit, len(shown))
    owner.legend(shown.values(), shown.keys(), ncols=number, frameon=False, **place)


def _names(chart: Chart) -> list[str]:
    return [*(series.name for series in chart.series), *(name for name, _ in chart.levels)]


def _height(chart: Chart) -> float:
    if not _lying(chart):
        return PANEL[1]
    return max(PANEL[1], 1.0 + BAR * (len(_labels(chart)) * (len(chart.series) + 1)))


def _styles(charts: Sequence[Chart]) -> dict[str, dict[str, Any]]:
    """Name of a series or level -> how it is drawn, the same in every panel."""
    series = [one for chart in charts for one in chart.series]
    ours = _places(charts, {one.name for one in series if not one.paper})
    papers = _places(charts, {one.name for one in series if one.paper})
    levels = _places(charts, {name for chart in charts for name, _ in chart.levels})
    return {
        **{
            name: {
                "color": COLORS[place % len(COLORS)],
                "marker": MARKERS[place % len(MARKERS)],
                "hatch": None,
            }
            for name, place in ours.items()
        },
        **{
            name: {
                "color": PAPER,
                "linestyle": DASHES[place % len(DASHES)],
                "marker": "x",
                "hatch": HATCHES[place % len(HATCHES)],
            }
            for name, place in papers.items()
        },
        **{
            name: {
                "color": LEVEL,
                "linestyle": DASHES[(place + 1) % len(DASHES)],
                "linewidth": 1.2,
            }
            for name, place in levels.items()
        },
    }


def _places(charts: Sequence[Chart], names: set[str]) -> dict[str, int]:
    """Name -> the first place that no other name in its panels has: names that never meet share one."""
    found: dict[str, int] = {}
    for name in dict.fromkeys(name for chart in charts for name in _names(chart) if name in names):
        beside = {other for chart in charts if name in (all_ := _names(chart)) for other in all_}
        taken = {found[other] for other in beside if other in found}
        found[name] = next(place for place in range(len(taken) + 1) if place not in taken)
    return found


def _lines(axes: Any, chart: Chart, styles: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Series name -> what the legend shows."""
    if chart.log_y:
        axes.set_yscale("log")
    if chart.log_x:
        _log_x(axes, [float(x) for series in chart.series for x in series.x])
    floor = _floor(chart)
    shown = {}
    for series in chart.series:
        xs, ys, ends = _points(series, floor)
        style: dict[str, Any] = {"markersize": 4, "linewidth": 1.4, "capsize": 2, "elinewidth": 0.9}
        style |= {key: value for key, value in styles[series.name].items() if key != "hatch"}
        shown[series.name] = axes.errorbar(xs, ys, yerr=ends, **style)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(_broken(chart.y_label))
    found = shown | _levels(chart, axes.axhline, floor, styles)
    if chart.log_y:
        _plain_ticks(axes.yaxis)
    return found


def _log_x(axes: Any, xs: Sequence[float]) -> None:
    """Base 2, with a place for 0; ticks where the points are, but for those that stand too close."""
    from matplotlib.ticker import NullLocator

    positive = [x for x in xs if x > 0]
    if len(positive) == len(xs):
        axes.set_xscale("log", base=2)
    else:
        axes.set_xscale("symlog", base=2, linthresh=min(positive, default=1.0))
    ticks, shown = sorted(set(xs)), list[float]()
    reach = math.log2(max(positive, default=2.0) / min(positive, default=1.0)) or 1.0
    for tick in ticks:
        near = shown and shown[-1] > 0 and math.log2(tick / shown[-1]) / reach < CLOSEST
        if not near:
            shown.append(tick)
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axes.xaxis.set_minor_locator(NullLocator())


def _plain_ticks(axis: Any) -> None:
    """Powers of ten as 0.1 or 1e-05: Matplotlib's own are set in its mathematics, which is off."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high / low < 100:  # a tick or two would say nothing
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(lambda value, place: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def _bars(axes: Any, chart: Chart, styles: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Series name -> what the legend shows. Each label's bars stand together."""
    labels, lying = _labels(chart), _lying(chart)
    place = {label: float(i) for i, label in enumerate(labels)}
    width = 0.8 / len(chart.series)
    floor = _floor(chart)
    shown = {}
    for number, series in enumerate(chart.series):
        offset = (number - (len(chart.series) - 1) / 2) * width
        xs, ys, ends = _points(series, floor, place)
        at = [x + offset for x in xs]
        color, hatch = (styles[series.name][key] for key in ("color", "hatch"))
        ours = {"color": color}
        papers = {"facecolor": "white", "edgecolor": PAPER, "hatch": hatch, "linewidth": 0.8}
        style = papers if series.paper else ours
        bars = {"error_kw": {"elinewidth": 0.9, "capsize": 2, "ecolor": "#222222"}, **style}
        if lying:
            shown[series.name] = axes.barh(at, ys, width * 0.92, xerr=ends, **bars)
        else:
            shown[series.name] = axes.bar(at, ys, width * 0.92, yerr=ends, **bars)
    found = shown | _levels(chart, axes.axvline if lying else axes.axhline, floor, styles)
    _label_bars(axes, chart, labels, lying)
    return found


def _label_bars(axes: Any, chart: Chart, labels: Sequence[str], lying: bool) -> None:
    if chart.log_y:
        (axes.set_xscale if lying else axes.set_yscale)("log")
        _plain_ticks(axes.xaxis if lying else axes.yaxis)
    if lying:
        axes.set_yticks(range(len(labels)), labels)
        axes.invert_yaxis()
        axes.set_xlabel(chart.y_label)
        axes.set_ylabel(_broken(chart.x_label))
        axes.grid(False, axis="y")
    else:
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(_broken(chart.y_label))
        axes.grid(False, axis="x")


def _broken(label: str) -> str:
    return textwrap.fill(label, LABEL_LEN)


def _labels(chart: Chart) -> list[str]:
    return list(dict.fromkeys(str(x) for series in chart.series for x in series.x))


def _lying(chart: Chart) -> bool:
    return chart.kind == "bars" and len("  ".join(_labels(chart))) > MOST_STANDING


def _points(
    series: Series, floor: float | None, place: Mapping[str, float] | None = None
) -> tuple[list[float], list[float], list[list[float]] | None]:
    """x, y and the intervals' reach below and above, points without a figure left out."""
    lows = series.low or [None] * len(series.y)
    highs = series.high or [None] * len(series.y)
    xs, ys, below, above = [], [], [], []
    points: Sequence[Any] = series.x
    for x, y, low, high in zip(points, series.y, lows, highs, strict=True):
        if y is None:
            continue
        value = _raised(y, floor)
        xs.append(place[str(x)] if place is not None else float(x))
        ys.append(value)
        below.append(0.0 if low is None else max(0.0, value - _raised(low, floor)))
        above.append(0.0 if high is None else max(0.0, high - value))
    return xs, ys, [below, above] if any(below) or any(above) else None


def _floor(chart: Chart) -> float | None:
    """On a logarithmic axis what is 0 or less is drawn here, at half of the smallest other figure."""
    if not chart.log_y:
        return None
    positive = [y for series in chart.series for y in series.y if y is not None and y > 0]
    return min(positive, default=1.0) / 2


def _raised(value: float, floor: float | None) -> float:
    return float(value) if floor is None else max(float(value), floor)


def _levels(
    chart: Chart, draw: Any, floor: float | None, styles: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    return {name: draw(_raised(value, floor), **styles[name]) for name, value in chart.levels}
