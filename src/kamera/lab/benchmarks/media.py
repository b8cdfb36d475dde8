"""Images and videos of a benchmark, opened when they are asked for."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from kamera.errors import ConfigError
from kamera.lab.replay.frames import load_frames

PDF_DPI = 144
"""At which MMLongBench-Doc's own evaluation renders its pages."""
POINTS_PER_INCH = 72


class Picture(ABC):
    """One image that isn't decoded yet."""

    @abstractmethod
    def open(self) -> Image.Image:
        """Decode it.

        Raises:
            ConfigError: it can't be read.
        """


@dataclass(frozen=True)
class ImageFile(Picture):
    """An image in a file."""

    path: Path

    def open(self) -> Image.Image:
        """Decode the file."""
        from kamera.engines.hf.images import open_image  # loads Transformers

        return open_image(self.path)


@dataclass(frozen=True, eq=False)
class LoadedImage(Picture):
    """An image that somebody else has opened."""

    image: Image.Image

    def open(self) -> Image.Image:
        """The image."""
        return self.image


@dataclass(frozen=True)
class ImageBytes(Picture):
    """An encoded image inside a row. `place` names it in messages."""

    data: bytes = field(repr=False)
    place: str

    def open(self) -> Image.Image:
        """Decode the bytes."""
        try:
            image = Image.open(io.BytesIO(self.data))
            image.load()
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise ConfigError(
                f"{self.place}: can't read the image: expected a whole PNG or JPEG, got: {error}"
            ) from error
        return image


@dataclass(frozen=True)
class PdfPage(Picture):
    """One page of a PDF, counted from 0, rendered at `PDF_DPI`."""

    path: Path
    index: int

    def open(self) -> Image.Image:
        """Render the page."""
        with _opened(self.path) as document:
            image: Image.Image = (
                document[self.index].render(scale=PDF_DPI / POINTS_PER_INCH).to_pil()
            )
        return image


@dataclass(frozen=True)
class Film:
    """A video file; `num_frames` evenly spaced frames are shown, the first and the last among them."""

    path: Path
    num_frames: int

    def frames(self) -> tuple[Image.Image, ...]:
        """Decode them. The whole film is decoded, since a container's own count may lie.

        Raises:
            ConfigError: it can't be read.
        """
        found = load_frames(self.path, max_frames=self.num_frames).frames
        return tuple(frame.image for frame in found if isinstance(frame.image, Image.Image))

    def fps(self, num_frames: int) -> float:
        """Frames per second **of `num_frames` frames spread over the film**.

        Raises:
            ConfigError: the file doesn't say how long the film lasts.
        """
        import imageio.v3 as reader

        seconds = reader.immeta(self.path, plugin="pyav").get("duration")
        if not seconds:
            raise ConfigError(
                f"{self.path} doesn't say how long it lasts: show its frames as images instead"
            )
        return num_frames / float(seconds)


def pdf_pages(path: Path) -> tuple[PdfPage, ...]:
    """Every page of a PDF, none rendered yet.

    Raises:
        ConfigError: no PDF there, a broken one, or no package that reads it.
    """
    with _opened(path) as document:
        return tuple(PdfPage(path, index) for index in range(len(document)))


def _opened(path: Path) -> Any:
    try:
        import pypdfium2
    except ImportError as error:
        raise ConfigError(
            "Reading a PDF needs pypdfium2. Install it with: pip install 'kamera-kv[lab]'"
        ) from error
    try:
        return pypdfium2.PdfDocument(path)
    except (pypdfium2.PdfiumError, OSError) as error:
        raise ConfigError(f"Can't read the PDF {path}: {error}") from error
