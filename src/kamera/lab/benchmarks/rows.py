"""Rows of JSON, JSON lines and parquet files; every error names the file and the row."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kamera.errors import ConfigError
from kamera.lab.benchmarks.media import ImageBytes, ImageFile

BATCH_ROWS = 8
"""Parquet rows in memory at once; a row may hold 20 slides."""


@dataclass(frozen=True)
class Row:
    """One row, and where it stands: `file, line 3`."""

    data: Mapping[str, Any]
    place: str

    def get(self, name: str) -> Any:
        """A field of any kind.

        Raises:
            ConfigError: the row doesn't have it.
        """
        if name not in self.data:
            raise ConfigError(
                f"{self.place}: no field {name!r}: expected it among {sorted(self.data)}"
            )
        return self.data[name]

    def text(self, name: str) -> str:
        """A field that is a text, or a number written as one."""
        value = self.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        raise self.wrong(name, "a text", value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A field that is a list of texts."""
        value = self.get(name)
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        raise self.wrong(name, "a list of texts", value)

    def row(self, name: str) -> Row:
        """A field that is an object."""
        value = self.get(name)
        if not isinstance(value, dict):
            raise self.wrong(name, "an object", value)
        return Row(value, f"{self.place}, {name}")

    def rows(self, name: str) -> tuple[Row, ...]:
        """A field that is a list of objects."""
        value = self.get(name)
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(name, "a list of objects", value)
        return tuple(Row(one, f"{self.place}, {name} {at}") for at, one in enumerate(value))

    def image(self, name: str) -> ImageBytes:
        """An image that the row itself holds, as parquet files do: `{"bytes": …, "path": …}`."""
        return _image(self.get(name), self, name)

    def images(self, name: str) -> tuple[ImageBytes, ...]:
        """A list of them."""
        value = self.get(name)
        if not isinstance(value, list):
            raise self.wrong(name, "a list of images", value)
        return tuple(_image(one, self, f"{name} {at}") for at, one in enumerate(value))

    def file(self, folder: Path, name: str) -> Path:
        """A file that the row names, below `folder`.

        Raises:
            ConfigError: nothing there, or the name leads out of the folder.
        """
        path = folder / name
        inside = Path(os.path.normpath(path)).is_relative_to(os.path.normpath(folder))
        if not inside:  # by its name alone: a hub's cache is full of links that lead elsewhere
            raise ConfigError(
                f"{self.place}: {name!r} leads out of {folder}: expected a file in it"
            )
        if not path.is_file():
            raise ConfigError(f"{self.place}: no file {path}: expected all that the rows name")
        return path

    def image_file(self, folder: Path, name: str) -> ImageFile:
        """An image that the row names."""
        return ImageFile(self.file(folder, name))

    def wrong(self, name: str, expected: str, value: Any) -> ConfigError:
        """The error for a field of another kind."""
        return ConfigError(f"{self.place}: {name!r} isn't {expected}, got {value!r:.80}")


def _image(value: Any, row: Row, name: str) -> ImageBytes:
    data = value.get("bytes") if isinstance(value, dict) else None
    if not isinstance(data, bytes):
        raise row.wrong(name, "an image with its bytes", value)
    return ImageBytes(data, f"{row.place}, {name}")


def json_lines(path: Path) -> Iterator[Row]:
    """One object a line; empty lines are passed over.

    Raises:
        ConfigError: no such file, or a line that isn't a JSON object, with its number.
    """
    with _text(path) as lines:
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield Row(_object(line, f"{path}, line {number}"), f"{path}, line {number}")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: expected UTF-8 text, got: {error}") from error


def json_file(path: Path) -> Any:
    """A whole JSON file.

    Raises:
        ConfigError: no such file, or not JSON.
    """
    with _text(path) as text:
        try:
            return json.load(text)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: expected JSON, got: {error}") from error


def parquet_rows(files: list[Path]) -> Iterator[Row]:
    """The rows of parquet files, a few in memory at once.

    Raises:
        ConfigError: a file that can't be read, or no package that reads it.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(
            "Reading parquet files needs pyarrow. Install it with: pip install 'kamera-kv[lab]'"
        ) from error
    for path in files:
        try:
            with pyarrow.parquet.ParquetFile(path) as file:
                number = 0
                for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
                    for data in batch.to_pylist():
                        number += 1
                        yield Row(data, f"{path}, row {number}")
        except (pyarrow.ArrowException, OSError) as error:
            raise ConfigError(f"Can't read the parquet file {path}: {error}") from error


def matching(folder: Path, *patterns: str) -> list[Path]:
    """The files of the first pattern that any file matches, in the order of their names.

    Raises:
        ConfigError: none matches.
    """
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if found:
            return found
    raise ConfigError(f"Nothing to read in {folder}: expected {' or '.join(patterns)}")


def _text(path: Path) -> Any:
    try:
        return path.open(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"Can't open {path}: {error.strerror}: expected a file") from error


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{place}: expected a JSON object, got: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: expected a JSON object, got {value!r:.80}")
    return value
