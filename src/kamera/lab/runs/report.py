"""The lab's report: one JSON file with a section for each run."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from kamera.errors import ConfigError

VERSION = 1
_PLAIN_LIST = re.compile(r"\[\s[^\[\]{}]*\]")
"""A list that holds no other: a series, which is written on one line."""


def read_report(path: Path) -> dict[str, Any]:
    """What the file holds; an empty report where there is none.

    Raises:
        ConfigError: it can't be read, isn't a report of the lab, or is one of another version.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"version": VERSION}
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"Can't read {path}: expected a report of the lab, got: {error}"
        ) from error
    version = found.get("version") if isinstance(found, dict) else None
    if version != VERSION:
        raise ConfigError(
            f"Can't use {path}: expected a report of the lab, version {VERSION}, got version {version!r}; "
            "move it away or name another file"
        )
    return dict(found)


def write_section(path: Path, name: str, section: dict[str, Any]) -> None:
    """Put one run's section into the report; the others stay as they are.

    Raises:
        ConfigError: as `read_report`, or the file can't be written.
    """
    report = {**read_report(path), name: section}
    try:
        write_whole(path, dumps(report))
    except OSError as error:
        raise ConfigError(f"Can't write {path}: expected a file, got: {error}") from error


def check_writable(path: Path) -> None:
    """Before the work: whether a section can be added, without touching what is there.

    Raises:
        ConfigError: as `write_section`.
    """
    read_report(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.touch()
        beside.unlink()
    except OSError as error:
        raise ConfigError(f"Can't write {path}: expected a file, got: {error}") from error


def write_whole(path: Path, text: str) -> None:
    """The file is the old one or the new one, never half of it.

    Raises:
        OSError: it can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def dumps(report: dict[str, Any]) -> str:
    """Indented JSON with every series on one line."""
    text = json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False)
    return _PLAIN_LIST.sub(lambda found: " ".join(found[0].split()), text) + "\n"
