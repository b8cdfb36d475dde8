"""`python -m kamera.lab.conformance`: run the matrix, print it, write build/conformance.json."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from kamera.lab.conformance import report
from kamera.lab.conformance.entry import entries
from kamera.lab.conformance.matrix import DTYPES, Row, rows_of


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every row is ok, else 1."""
    parser = argparse.ArgumentParser(prog="python -m kamera.lab.conformance", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/conformance.json"))
    parser.add_argument("--only", default="", help="entries whose name holds this")
    chosen = parser.parse_args(arguments)
    console, progress = Console(width=report.WIDTH), Console(stderr=True)
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    wanted = [entry for entry in entries() if chosen.only in entry.name]
    for number, entry in enumerate(wanted, 1):
        progress.print(f"[{number}/{len(wanted)}] {entry.name}", markup=False, highlight=False)
        for dtype in DTYPES:
            rows += rows_of(entry, dtype)
    report.show(rows, console)
    console.print(report.summary(rows), highlight=False)
    return 0 if rows and report.write(rows, chosen.out)["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
