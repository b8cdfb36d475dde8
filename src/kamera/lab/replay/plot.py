"""The picture of a replay: tokens prefilled and time to first token, per step and arm."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kamera.errors import ConfigError
from kamera.lab.replay.report import ArmStep, ReplayReport

COLORS = {
    "re-prefill": "#8a8f98",
    "prefix cache": "#e08a1e",
    "blind": "#a05195",
    "kamera": "#1769c2",
}
MARKERS = {"re-prefill": "s", "prefix cache": "D", "blind": "^", "kamera": "o"}
MAX_BARS = 30
"""Steps up to which bars can be told apart; lines above."""
MAX_TICKS = 40
MIN_ROOM = 4
"""Steps that the axes have room for at least, so that one step isn't spread over them."""


def require_matplotlib() -> None:
    """Raises `ConfigError` where matplotlib isn't installed."""
    if find_spec("matplotlib") is None:
        raise ConfigError(
            "The plot needs matplotlib. Install it with: pip install 'kamera-kv[lab]'"
        )


def draw(report: ReplayReport, path: Path) -> None:
    """Write the picture as PNG.

    Raises:
        ConfigError: the file can't be written.
    """
    from matplotlib.figure import Figure

    num_steps = len(report.steps)
    width = min(18.0, max(8.5, 2.5 + 0.62 * num_steps))
    figure = Figure(figsize=(width, 7.4), dpi=130, layout="constrained")
    tokens, times = figure.subplots(2, 1, sharex=True)
    if num_steps <= MAX_BARS:
        _bars(tokens, report, lambda arm: arm.num_prefilled)
    else:
        _lines(tokens, report, lambda arm: arm.num_prefilled)
    _lines(times, report, lambda arm: 1000 * arm.ttft_s)
    tokens.set_ylabel("tokens prefilled (window)")
    times.set_ylabel("time to first token (ms)")
    for axes in (tokens, times):
        axes.set_ylim(0, 1.08 * axes.dataLim.y1 or 1)
        axes.set_xlim(-0.6, max(num_steps, MIN_ROOM) - 0.4)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    _name_steps(times, report)
    figure.suptitle(
        f"Images in the window: {report.settings['window']}   "
        f"frames: {len(report.source['frames'])}   model: {report.model['model_type']}",
        fontsize=12,
    )
    handles = [_handle(arm, _label(report, arm)) for arm in report.arms]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    try:
        figure.savefig(path)
    except OSError as error:
        raise ConfigError(f"Can't write the plot {path}: {error}") from error


def _bars(axes: Any, report: ReplayReport, value: Callable[[ArmStep], float]) -> None:
    """One group of bars a step. A bar of no height says 0, so that nothing isn't read as missing."""
    wide = 0.82 / len(report.arms)
    for place, arm in enumerate(report.arms):
        shift = (place - (len(report.arms) - 1) / 2) * wide
        at = [step + shift for step in range(len(report.steps))]
        heights = [value(step.arms[arm]) for step in report.steps]
        axes.bar(at, heights, width=wide, color=COLORS[arm])
        for x, height in zip(at, heights, strict=True):
            if height == 0:
                color = COLORS[arm]
                axes.text(x, 0, "0", color=color, fontsize=7, ha="center", va="bottom")


def _lines(axes: Any, report: ReplayReport, value: Callable[[ArmStep], float]) -> None:
    for arm in report.arms:
        heights = [value(step.arms[arm]) for step in report.steps]
        style = {"color": COLORS[arm], "marker": MARKERS[arm]}
        axes.plot(heights, markersize=5, linewidth=1.4, clip_on=False, **style)


def _name_steps(axes: Any, report: ReplayReport) -> None:
    every = -(-len(report.steps) // MAX_TICKS)
    last = len(report.steps) - 1
    shown = sorted({*range(0, last, every), last})
    names = [report.steps[i].name for i in shown]
    axes.set_xticks(shown, names, rotation=45, ha="right", fontsize=9)
    axes.set_xlabel("step (frame that came in)")


def _label(report: ReplayReport, arm: str) -> str:
    total = report.totals()[arm]
    return (
        f"{arm}: {total.num_prefilled:,} tokens, {total.num_vision_runs} vision runs, "
        f"median {1000 * total.median_ttft_s:.1f} ms"
    )


def _handle(arm: str, label: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=COLORS[arm], marker=MARKERS[arm], linewidth=3, label=label)
