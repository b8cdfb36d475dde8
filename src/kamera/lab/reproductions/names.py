"""Names of the reproductions and what each is, without importing one: `kamera --help` loads no torch."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_FILE = re.compile(r"(table|fig)\d+|appendix_[a-z]")


def reproduction_names() -> dict[str, str]:
    """Name -> the first line of its file's docstring: tables, figures, then the appendices."""
    files = [path for path in Path(__file__).parent.glob("*.py") if _FILE.fullmatch(path.stem)]
    return {path.stem.replace("_", "-"): _first_line(path) for path in sorted(files, key=_place)}


def _place(path: Path) -> tuple[bool, bool, int, str]:
    number = re.search(r"\d+", path.stem)
    figure, appendix = path.stem.startswith("fig"), path.stem.startswith("appendix")
    return appendix, figure, int(number[0]) if number else 0, path.stem


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return (docstring or "").partition("\n")[0]
