"""What of an image, a video or an audio clip decides the bytes of its KV."""

import copy
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy.typing as npt
import torch

from kamera.errors import ConfigError
from kamera.identity.digests import digest

__all__ = ["MediaIdentity"]

MEDIA_VERSION = 2


@dataclass(frozen=True, eq=False)
class MediaIdentity:
    """One media item by what the model sees of it: the processor's outputs and its settings.

    There is no path, URL or caller-made id, and no way to hand in a digest: `inputs` are hashed here
    and not kept.

    Attributes:
        inputs: all that the processor hands to the tower, by name (`pixel_values`,
            `image_grid_thw`, …), any dense dtype and shape.
        processor: the processor's settings. Copied.
        source: what of the source was read (an image's mode, size, EXIF orientation, alpha handling,
            palette), since the same bytes read under another mode are another image. Copied.
    """

    inputs: InitVar[Mapping[str, npt.NDArray[Any] | torch.Tensor]]
    processor: dict[str, Any]
    source: dict[str, Any] = field(default_factory=dict)
    inputs_digest: str = field(init=False)
    digest: str = field(init=False)

    def __post_init__(self, inputs: Mapping[str, npt.NDArray[Any] | torch.Tensor]) -> None:
        if not inputs:
            raise ConfigError("Media without inputs: expected the processor's outputs, got none.")
        object.__setattr__(self, "processor", copy.deepcopy(self.processor))
        object.__setattr__(self, "source", copy.deepcopy(self.source))
        object.__setattr__(
            self, "inputs_digest", digest("kamera.inputs", MEDIA_VERSION, dict(inputs))
        )
        object.__setattr__(self, "digest", digest("kamera.media", MEDIA_VERSION, self._identity()))

    def _identity(self) -> dict[str, object]:
        return {
            "inputs": self.inputs_digest,
            "processor": self.processor,
            "source": self.source,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MediaIdentity) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)
