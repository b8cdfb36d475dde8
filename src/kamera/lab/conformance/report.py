"""The matrix as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from kamera.lab.conformance.checks import CHECKS
from kamera.lab.conformance.matrix import Row
from kamera.lab.environment import environment

REPORT_VERSION = 1
WIDTH = 320
"""Columns at most: the matrix is wide, and a pipe has no width of its own."""


def write(rows: Sequence[Row], path: Path) -> dict[str, Any]:
    """The report as JSON; gives it back."""
    report = {
        "version": REPORT_VERSION,
        "environment": environment(),
        "ok": all(row.outcome.ok for row in rows),
        "model_classes": sorted({row.entry.model_class for row in rows if row.outcome.ok}),
        "rows": [row.to_dict() for row in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n")
    return report


def show(rows: Sequence[Row], console: Console) -> None:
    """One line for each model, dtype and kind of chunk: the worst error over its bound, by check."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("family", "class", "weights", "RoPE", "dtype", "chunk"):
        table.add_column(name, no_wrap=True)
    for group in CHECKS:
        table.add_column(group, justify="right", no_wrap=True)
    for key, found in _lines(rows).items():
        cells = [_cell([row for row in found if row.group == group]) for group in CHECKS]
        table.add_row(*key, *cells)
    console.print(table)
    for row in rows:
        if not row.outcome.ok:
            console.print(_sentence(row), style="red", markup=False, highlight=False)


def summary(rows: Sequence[Row]) -> str:
    """One sentence."""
    bad = sum(not row.outcome.ok for row in rows)
    classes = len({row.entry.model_class for row in rows} - {""})
    verdict = "all within their bounds" if not bad else f"{bad} NOT ok"
    return f"{len(rows)} checks on {classes} model classes: {verdict}"


def _lines(rows: Iterable[Row]) -> dict[tuple[str, ...], list[Row]]:
    lines: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        short = row.entry.model_class.removesuffix("ForConditionalGeneration")
        names = (row.entry.model_type, short.removesuffix("ForCausalLM"), row.entry.weights)
        lines.setdefault((*names, row.rope, row.dtype, row.chunk), []).append(row)
    return lines


def _cell(rows: Sequence[Row]) -> str:
    """Error and bound of the outcome nearest to failing."""
    if not rows:
        return "–"
    found = max((row.outcome for row in rows), key=lambda o: (not o.ok, _nearness(o)))
    sign = ">" if found.is_control else "≤"
    text = f"{found.error:.0e} {sign} {found.bound:.0e}".replace("0e+00", "0")
    return text if found.ok else f"[bold red]{text}[/]"


def _nearness(outcome: Any) -> float:
    ratio = outcome.error / outcome.bound if outcome.bound else float(outcome.error > 0)
    return 1 / ratio if outcome.is_control and ratio else ratio


def _sentence(row: Row) -> str:
    found = row.outcome
    wanted = f"far above {found.bound:.3g}" if found.is_control else f"at most {found.bound:.3g}"
    return (
        f"NOT OK  {row.entry.name}, {row.rope}, {row.dtype}, {row.chunk}: {found.check}: "
        f"{found.error:.3g}, expected {wanted}"
    )
