"""Tables of arms in HTML: of the binding task, and of a public benchmark."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kamera.lab.reproductions.judge import number, shown

ENDS = ("accuracy", "agreement", "kl", "eta", "flip_recover")
"""Figures with intervals."""


def every_arm(model: Mapping[str, Any]) -> str:
    """The binding task's: each figure with its interval, and the bytes that are kept for one window."""
    headings = ("arm", "kind", "accuracy", "agreement", "KL", "η", "flip-recover", "kB")
    return _table(
        headings,
        (
            [
                name,
                row["kind"],
                *(shown(row["intervals"][end]) for end in ENDS),
                f"{row['num_bytes'] / row['n'] / 1000:.1f}",
            ]
            for name, row in model["arms"].items()
        ),
    )


def benchmark_arms(model: Mapping[str, Any]) -> str:
    """A benchmark's: its own score with its interval, and how close the arm is to re-prefill."""
    headings = ("arm", "score", "agreement", "KL", "η", "flip-recover", "kB")
    plain = ("agreement", "kl", "eta", "flip_recover")
    return _table(
        headings,
        (
            [
                name,
                shown(row["score_interval"]),
                *("–" if row[key] is None else number(row[key]) for key in plain),
                f"{row['num_bytes'] / model['n'] / 1000:.1f}",
            ]
            for name, row in model["arms"].items()
        ),
    )


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "".join(
        f"<tr>{''.join(f'<td class=figure>{html.escape(cell)}</td>' for cell in row)}</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table></div>'
