"""A benchmark by its name, its options as words: what a command line has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from kamera.errors import ConfigError
from kamera.lab.benchmarks import BENCHMARKS, Benchmark


def open_benchmark(name: str, folder: Path, given: Mapping[str, str]) -> Benchmark:
    """One of `BENCHMARKS`.

    Args:
        given: fields of its class but the folder; a tuple's members behind commas.

    Raises:
        ConfigError: there is no such benchmark, folder, field or value.
    """
    if name not in BENCHMARKS:
        raise ConfigError(
            f"Invalid benchmark {name!r}: expected one of {', '.join(sorted(BENCHMARKS))}"
        )
    if not folder.is_dir():
        raise ConfigError(f"No benchmark at {folder}: expected the folder that holds {name}")
    kind = BENCHMARKS[name]
    types = get_type_hints(kind)
    known = {field.name: types[field.name] for field in fields(kind) if field.name != "folder"}  # type: ignore[arg-type]
    unknown = sorted(set(given) - set(known))
    if unknown:
        expected = ", ".join(known) or "none"
        raise ConfigError(
            f"Invalid options of {name}: expected {expected}, got {', '.join(unknown)}"
        )
    values = {key: _value(key, known[key], text) for key, text in given.items()}
    return kind(folder, **values)  # type: ignore[call-arg]


def _value(name: str, kind: Any, text: str) -> Any:
    try:
        if get_origin(kind) is tuple:
            return tuple(get_args(kind)[0](part) for part in text.split(","))
        if get_origin(kind) is Literal:
            return {choice: choice for choice in get_args(kind)}[text]
        if kind is bool:
            return {"true": True, "false": False}[text]
        return kind(text) if kind is str else int(text)  # an int, or one that may be None
    except (KeyError, ValueError) as error:
        expected = ", ".join(map(str, get_args(kind))) or kind.__name__
        raise ConfigError(f"Invalid {name}: expected {expected}, got {text!r}") from error
