"""The demo's picture: accuracy by arm, and KL by patch rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BARS = {"re-prefill": "#4c566a", "blind": "#bf616a", "patch 16": "#5e81ac"}
RANKS = (1, 2, 4, 8, 16)
FLOOR = 1e-9


def draw_tasks(tasks: dict[str, dict[str, Any]], path: Path) -> None:
    """Two panels as a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    _bars(left, tasks)
    _curves(right, tasks)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _bars(axes: Any, tasks: dict[str, dict[str, Any]]) -> None:
    width = 0.26
    for offset, (arm, color) in enumerate(BARS.items()):
        at = [i + (offset - 1) * width for i in range(len(tasks))]
        heights = [arms[arm]["accuracy"] for arms in tasks.values()]
        bars = axes.bar(at, heights, width, label=arm, color=color)
        axes.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)
    axes.set_xticks(range(len(tasks)), [name.replace("_", " ") for name in tasks])
    axes.set_ylim(0, 1.25)
    axes.set_ylabel("accuracy on test items")
    axes.set_title("Blind reuse loses what was bound; the patch gives it back")
    axes.legend(loc="upper right", ncols=3, fontsize=8, framealpha=0.9)


def _curves(axes: Any, tasks: dict[str, dict[str, Any]]) -> None:
    for color, (name, arms) in zip(
        ("#a3be8c", "#bf616a", "#5e81ac", "#b48ead"), tasks.items(), strict=False
    ):
        values = [max(arms[f"patch {rank}"]["kl"], FLOOR) for rank in RANKS]
        axes.plot(RANKS, values, marker="o", color=color, label=name.replace("_", " "))
        blind = max(arms["blind"]["kl"], FLOOR)
        axes.axhline(blind, color=color, linestyle=":", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(RANKS, [str(rank) for rank in RANKS])
    axes.set_xlabel("patch rank m")
    axes.set_ylabel("KL to re-prefill, nats")
    axes.set_title("KL by rank (dotted: blind reuse)")
    axes.legend(fontsize=8)
