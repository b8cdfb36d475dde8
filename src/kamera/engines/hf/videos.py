"""The frames of a video -> the video tower's inputs, with an identity over all that decides them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kamera.chunk import Media
from kamera.engines.hf.images import open_image, processor_settings, to_rgb
from kamera.engines.hf.modality import Modality
from kamera.errors import ConfigError
from kamera.identity import MediaIdentity

SLOWEST, FASTEST = 1e-3, 1e3
"""Frames per second. Slower ones would move the position counter by more than a model has positions."""


@dataclass(frozen=True)
class Video:
    """Frames in their order, `fps` of them to a second. Sampling them is the caller's job.

    Attributes:
        frames: PIL images or paths, all of one size.
        fps: frames per second **of these frames**, not of the film that they were taken from.
    """

    frames: tuple[Any, ...]
    fps: float

    @classmethod
    def of(cls, frames: Any, fps: Any) -> Video:
        """A video as a caller names it.

        Raises:
            ConfigError: no frame, something else than a sequence of them, or a rate that isn't positive.
        """
        if not isinstance(frames, list | tuple) or not frames:
            raise ConfigError(
                f"Not a video: expected a list of frames (PIL images or paths), got {frames!r:.80}. "
                "A video file isn't decoded: sample its frames and name their rate."
            )
        number = isinstance(fps, int | float) and not isinstance(fps, bool)
        if not number or not SLOWEST <= fps <= FASTEST:
            raise ConfigError(
                f"Invalid fps: expected the frames' rate per second, a number from {SLOWEST} to "
                f"{FASTEST}, got {fps!r:.80}"
            )
        return cls(tuple(frames), float(fps))


def process_video(video: Video, processor: Any, modality: Modality) -> tuple[Media, MediaIdentity]:
    """Upright, opaque RGB frames, then the family's arithmetic.

    Beside the tower's inputs the media hold `frame_seconds` [N], float64, when each frame was shown, and
    `second_per_grid` [1], float32, how long a temporal patch lasts.

    Raises:
        ConfigError: a frame that can't be read, frames of unequal size, or what the family refuses.
    """
    shown, sources = zip(*(_frame(frame, at) for at, frame in enumerate(video.frames)), strict=True)
    shapes = sorted({tuple(frame.shape[1:]) for frame in shown})
    if len(shapes) > 1:
        raise ConfigError(
            f"Frames of {len(shapes)} sizes, (height, width) {shapes[:4]}: expected all of one size"
        )
    try:
        patches, grid = processor(torch.stack(shown))
    except ValueError as error:
        raise ConfigError(f"Can't process a video of {len(shown)} frames: {error}") from error
    pixels, grids = modality.inputs
    inputs = {
        pixels: patches,
        grids: grid,
        "frame_seconds": torch.arange(len(shown), dtype=torch.float64) / video.fps,
        "second_per_grid": torch.tensor([processor.temporal_patch_size / video.fps]),
    }
    source = {"frames": list(sources), "fps": video.fps}
    identity = MediaIdentity(inputs, processor_settings(processor), source)
    return Media(inputs, identity.digest), identity


def _frame(frame: Any, at: int) -> tuple[Tensor, dict[str, Any]]:
    """[3, height, width], uint8, and what of the source was read."""
    image = open_image(frame)
    try:
        rgb, source = to_rgb(image)
    except (ValueError, OSError, SyntaxError) as error:
        raise ConfigError(
            f"Can't read frame {at} of a video, {image.width} x {image.height} pixels, mode {image.mode}: "
            f"{error}"
        ) from error
    return torch.from_numpy(np.array(rgb)).permute(2, 0, 1).contiguous(), source
