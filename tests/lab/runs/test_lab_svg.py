"""Charts as SVG: every kind, gaps, logarithms with zeros, the paper's own told apart."""

import re
from xml.etree import ElementTree

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.runs.svg import COLORS, PAPER, digest_of, draw_svg, figure_of

LABELS = ["patch 16", "cacheblend 15%", "epic 16", "mpic 32", "<&$>"]
OURS = Series("ours", [0.0, 1.0, 4.0], [0.5, None, 0.0], [0.4, None, -0.1], [0.6, None, 0.1])
THEIRS = Series("the paper", [1.0, 4.0], [0.5, 0.7], paper=True)
CHARTS = {
    "lines": Chart("lines", "lines", "rank", "η", [OURS, THEIRS], [("blind", 0.2)]),
    "log": Chart("log", "lines", "rank", "KL", [OURS], log_x=True, log_y=True),
    "bars": Chart("bars", "bars", "", "η", [Series("ours", ["a", "b"], [0.5, None])]),
    "lying": Chart(
        "lying", "bars", "arm", "KL",
        [
            Series("ours", LABELS, [0.5, 0.0, None, 0.1, 0.2]),
            Series("the paper", LABELS[:1], [1.0], paper=True),
        ],
        [("blind", 0.0)], log_y=True,
    ),
    "empty": Chart("empty", "lines", "", "", [Series("none", [1.0], [None])], log_x=True, log_y=True),
}  # fmt: skip


@pytest.mark.parametrize("kind", CHARTS)
def test_every_kind_is_drawn(kind: str) -> None:
    chart = CHARTS[kind]
    svg = draw_svg([chart])
    texts = {element.text for element in ElementTree.fromstring(svg).iter() if element.text}
    assert chart.title in texts
    assert digest_of([chart]) in svg
    for series in chart.series:
        assert (series.name in texts) == (len(chart.series) + len(chart.levels) > 1)


def test_one_chart_is_drawn_the_same_twice() -> None:
    assert draw_svg(list(CHARTS.values())) == draw_svg(list(CHARTS.values()))


def test_nothing_of_a_label_is_read_as_markup() -> None:
    svg = draw_svg([CHARTS["lying"]])
    assert "&lt;&amp;$&gt;" in svg
    assert "<metadata" not in svg
    assert svg.startswith("<svg")


def test_the_papers_own_is_dashed_or_hatched() -> None:
    figure = figure_of([CHARTS["lines"], CHARTS["lying"]])
    lines, bars = figure.axes
    theirs = [line for line in lines.lines if line.get_color() == PAPER]
    assert theirs
    assert all(line.get_linestyle() == "--" for line in theirs if line.get_xdata().size > 1)
    hatched = [bar for bar in bars.patches if bar.get_hatch()]
    assert len(hatched) == 1


def test_a_series_has_one_color_in_every_panel() -> None:
    figure = figure_of([CHARTS["bars"], CHARTS["lines"]])
    bar, line = figure.axes[0].patches[0], figure.axes[1].lines[0]
    assert line.get_color() == COLORS[0]
    assert bar.get_facecolor()[:3] == pytest.approx(
        tuple(int(COLORS[0][i : i + 2], 16) / 255 for i in (1, 3, 5))
    )


def test_the_intervals_are_drawn_and_a_gap_is_left() -> None:
    axes = figure_of([CHARTS["lines"]]).axes[0]
    assert list(axes.lines[0].get_xdata()) == [0.0, 4.0]  # x = 1 has no figure
    (whiskers,) = [c for c in axes.collections if hasattr(c, "get_segments")][:1]
    ends = [(low[1], high[1]) for low, high in whiskers.get_segments()]
    assert ends == [pytest.approx((0.4, 0.6)), pytest.approx((-0.1, 0.1))]


@pytest.mark.parametrize("kinds", [("lines", "lines"), ("lines", "log")])
def test_the_legend_stands_outside_of_the_panels(kinds: tuple[str, ...]) -> None:
    """One below all when they share their names, else one below each."""
    figure = figure_of([CHARTS[kind] for kind in kinds])
    FigureCanvasAgg(figure).draw()
    own = [axes.get_legend() for axes in figure.axes]
    assert len(figure.legends) == (1 if len(set(kinds)) == 1 else 0)
    for axes, legend in zip(figure.axes, own, strict=True):
        if axes is not figure.axes[0] and not figure.legends:
            assert legend is None  # one name needs none
            continue
        assert (legend is None) == bool(figure.legends)
        below = (figure.legends or [legend])[0].get_window_extent().y1
        labels = [axes.xaxis.label, *axes.get_xticklabels()]
        assert min(label.get_window_extent().y0 for label in labels) >= below - 1


def test_the_digest_is_of_the_figures() -> None:
    other = Chart("lines", "lines", "rank", "η", [OURS, THEIRS], [("blind", 0.3)])
    assert digest_of([CHARTS["lines"]]) != digest_of([other])
    assert re.fullmatch(r"[0-9a-f]{64}", digest_of([]))


def test_names_that_meet_in_a_panel_differ_and_others_may_share() -> None:
    def panel(*names: str) -> Chart:
        return Chart("", "lines", "", "", [Series(name, [1.0], [1.0]) for name in names])

    panels = [panel("a", "b"), panel("c", "a"), panel("d")]
    figure = figure_of(panels)
    colors = [[line.get_color() for line in axes.lines if line.get_label()] for axes in figure.axes]
    found = {
        series.name: color
        for chart, drawn in zip(panels, colors, strict=True)
        for series, color in zip(chart.series, dict.fromkeys(drawn), strict=True)
    }
    assert found == {"a": COLORS[0], "b": COLORS[1], "c": COLORS[1], "d": COLORS[0]}
