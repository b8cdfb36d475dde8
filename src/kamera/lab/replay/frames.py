"""Frames in order: the images of a folder, or evenly spaced frames of a video."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from kamera.errors import ConfigError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg")
VIDEO_FRAMES = 32
"""Frames that are taken of a video when no number is asked for."""


@dataclass(frozen=True)
class Frame:
    """One image: its name in the report, and its file or its pixels."""

    name: str
    image: Path | Image.Image


@dataclass(frozen=True)
class Frames:
    """Frames in order, the names of those that were skipped, and what the report should say."""

    frames: tuple[Frame, ...]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def load_frames(source: Path, *, max_frames: int | None = None, skip_bad: bool = False) -> Frames:
    """The frames of a folder or a video; every one is decoded once, so that a bad one fails here.

    Raises:
        ConfigError: no such folder or video, no image in it, an image that can't be read (unless
            `skip_bad`), or a video without what reads it.
    """
    if source.is_dir():
        return _from_folder(source, max_frames, skip_bad)
    if not source.exists():
        raise ConfigError(
            f"Nothing at {source}: expected a folder of PNG or JPEG images, or a video"
        )
    if source.suffix.lower() in VIDEO_SUFFIXES:
        return _from_video(source, VIDEO_FRAMES if max_frames is None else max_frames)
    raise ConfigError(
        f"Can't replay the file {source}: expected a folder of PNG or JPEG images, or a video "
        f"({', '.join(VIDEO_SUFFIXES)})"
    )


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Sorts by the numbers in a name, so that screenshot10 follows screenshot9."""
    parts = re.split(r"([0-9]+)", name.lower())
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], name


def evenly(total: int, count: int) -> list[int]:
    """`count` indices below `total`, evenly spaced, the first and the last among them."""
    if count >= total:
        return list(range(total))
    if count == 1:
        return [0]
    return [round(i * (total - 1) / (count - 1)) for i in range(count)]


def _from_folder(folder: Path, max_frames: int | None, skip_bad: bool) -> Frames:
    paths = _images_in(folder)
    from kamera.engines.hf.images import open_image  # loads Transformers: after the cheap checks

    good: list[Frame] = []
    skipped: list[str] = []
    for path in paths:
        if len(good) == max_frames:
            break
        try:
            open_image(path)
        except ConfigError as error:
            if not skip_bad:
                raise ConfigError(f"{error}. Mend or remove it, or pass --skip-bad") from error
            skipped.append(path.name)
        else:
            good.append(Frame(path.name, path))
    if not good:
        raise ConfigError(f"No readable image in {folder}: {len(skipped)} skipped, none left")
    notes = []
    if skipped:
        notes.append(f"Skipped {len(skipped)} unreadable: {', '.join(skipped)}.")
    if len(good) + len(skipped) < len(paths):
        notes.append(f"The first {len(good)} of the folder's {len(paths)} images.")
    return Frames(tuple(good), tuple(skipped), tuple(notes))


def _images_in(folder: Path) -> list[Path]:
    """Image files in natural order; hidden ones aren't frames."""
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"Can't list the folder {folder}: {error}") from error
    paths = [
        path
        for path in entries
        if path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")
    ]
    if not paths:
        inner = sorted(path.name for path in entries if path.is_dir())
        hint = f"; did you mean one of its folders: {', '.join(inner[:5])}?" if inner else ""
        raise ConfigError(f"No image in {folder}: expected PNG or JPEG files{hint}")
    return sorted(paths, key=lambda path: natural_key(path.name))


def _from_video(path: Path, count: int) -> Frames:
    reader = _video_reader()
    try:
        total = sum(1 for _ in _decoded(reader, path))
        wanted = set(evenly(total, count))
        frames = tuple(
            Frame(f"frame {i}", Image.fromarray(pixels))
            for i, pixels in enumerate(_decoded(reader, path))
            if i in wanted
        )
    except (OSError, ValueError, RuntimeError, IndexError, EOFError) as error:
        raise ConfigError(f"Can't read the video {path}: {error}") from error
    if not frames:
        raise ConfigError(f"No frame in the video {path}: expected at least one")
    note = f"{len(frames)} evenly spaced frames of the video's {total}."
    return Frames(frames, notes=(note,))


def _video_reader() -> Any:
    try:
        import av  # noqa: F401  (imageio's plugin needs it, and says so only when it reads)
        import imageio.v3 as reader
    except ImportError as error:
        raise ConfigError(
            "Reading a video needs imageio with PyAV. "
            "Install it with: pip install 'kamera-kv[lab]', or give a folder of images"
        ) from error
    return reader


def _decoded(reader: Any, path: Path) -> Iterator[Any]:
    """Every frame as [height, width, 3] bytes. Counted by decoding: a container's own count may lie."""
    yield from reader.imiter(path, plugin="pyav", format="rgb24")
