"""What of an image (or of a video's frames) decides the bytes of its KV."""

import copy
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy.typing as npt
import torch

from kamera.errors import ConfigError
from kamera.identity.digests import digest

__all__ = ["ImageIdentity"]

IMAGE_VERSION = 1


@dataclass(frozen=True, eq=False)
class ImageIdentity:
    """An image by what the model sees of it: processed pixels, grid and processor settings.

    The source is named as well (mode, width and height, EXIF orientation, alpha handling, palette),
    since the same bytes read under another mode are another image. There is no path, URL or
    caller-made id, and no way to hand in a digest: `pixels` are hashed here and not kept.

    `pixels` is what the processor hands to the vision tower, any dense dtype and shape. `grid` is
    (t, h, w) in patches, `size` is (width, height) of the source in pixels, `exif_orientation` is
    the tag's value 1 to 8 as it was found, `alpha` names what was done with transparency ("none"
    where there was none), `palette` is the palette's raw bytes or None. `processor` is copied.
    """

    pixels: InitVar[npt.NDArray[Any] | torch.Tensor]
    grid: tuple[int, int, int]
    processor: dict[str, Any]
    mode: str
    size: tuple[int, int]
    exif_orientation: int = 1
    alpha: str = "none"
    palette: bytes | None = None
    pixels_digest: str = field(init=False)
    digest: str = field(init=False)

    def __post_init__(self, pixels: npt.NDArray[Any] | torch.Tensor) -> None:
        if len(self.grid) != 3 or min(self.grid) < 1:
            raise ConfigError(
                f"Invalid image grid: expected (t, h, w), each at least 1, got {self.grid}."
            )
        if len(self.size) != 2 or min(self.size) < 1:
            raise ConfigError(
                f"Invalid image size: expected (width, height), each at least 1, got {self.size}."
            )
        if not 1 <= self.exif_orientation <= 8:
            raise ConfigError(
                f"Invalid EXIF orientation: expected 1 to 8 (1 where the file has none), "
                f"got {self.exif_orientation}."
            )
        if not self.mode:
            raise ConfigError("Image has no mode: expected the source's ('RGB', 'L', 'P'), got ''.")
        object.__setattr__(self, "processor", copy.deepcopy(self.processor))
        object.__setattr__(self, "pixels_digest", digest("kamera.pixels", IMAGE_VERSION, pixels))
        object.__setattr__(self, "digest", digest("kamera.image", IMAGE_VERSION, self._identity()))

    def _identity(self) -> dict[str, object]:
        return {
            "pixels": self.pixels_digest,
            "grid": list(self.grid),
            "processor": self.processor,
            "mode": self.mode,
            "size": list(self.size),
            "exif_orientation": self.exif_orientation,
            "alpha": self.alpha,
            "palette": self.palette,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ImageIdentity) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)
