"""Inputs of towers that take a grid of patches, and of those that take sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

PATCH = 14
"""Pixels on a side of most towers' patches."""
GRIDS = ((4, 6), (6, 4))
"""Rows and columns of patches by seed: 2 x 3 and 3 x 2 merged tokens, so that no two axes run alike."""
NUM_MELS = 16
NUM_FRAMES = (52, 36)
"""Spectrogram frames by seed."""


def noise(seed: int, *shape: int) -> Tensor:
    """Standard normal."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def patch_of(config: Any) -> int:
    """Pixels on a side of one of the tower's patches."""
    side: int = config.vision_config.patch_size
    return side


def image(config: Any, seed: int) -> Mapping[str, Tensor]:
    """A still image, two equal frames to a patch."""
    (rows, columns), patch = GRIDS[seed % 2], patch_of(config)
    return {
        "pixel_values": noise(seed, rows * columns, 3 * 2 * patch * patch),
        "image_grid_thw": torch.tensor([[1, rows, columns]]),
    }


def flat_image(config: Any, seed: int) -> Mapping[str, Tensor]:
    """A still image of square patches [patches, 3, side, side], for towers without a time axis."""
    (rows, columns), patch = GRIDS[seed % 2], patch_of(config)
    return {
        "pixel_values": noise(seed, rows * columns, 3, patch, patch),
        "image_grid_thw": torch.tensor([[1, rows, columns]]),
    }


def video(
    config: Any, seed: int, num_steps: int = 2, interval: float = 1.0
) -> Mapping[str, Tensor]:
    """Temporal patches of two frames, `interval` seconds to each patch."""
    (rows, columns), patch = GRIDS[seed % 2], patch_of(config)
    seconds = torch.tensor([interval])
    return {
        "pixel_values_videos": noise(seed, num_steps * rows * columns, 3 * 2 * patch * patch),
        "video_grid_thw": torch.tensor([[num_steps, rows, columns]]),
        "frame_seconds": torch.arange(2 * num_steps, dtype=torch.float64) * interval / 2,
        # One fact under Kamera's name and those of the models' own forwards.
        "second_per_grid": seconds,
        "second_per_grid_ts": seconds,
        "video_second_per_grid": seconds,
    }


def long_video(config: Any, seed: int) -> Mapping[str, Tensor]:
    """One that runs further on the t axis than its grid is wide, by whole positions."""
    return video(config, seed, num_steps=4)


def odd_video(config: Any, seed: int) -> Mapping[str, Tensor]:
    """A long one at 1.8 positions to a temporal patch: 0, 1, 3, 5 cut off, 0, 2, 4, 5 rounded."""
    return video(config, seed, num_steps=4, interval=0.9)


def audio(config: Any, seed: int) -> Mapping[str, Tensor]:
    """A clip as a spectrogram."""
    frames = NUM_FRAMES[seed % 2]
    return {
        "input_features": noise(seed, 1, NUM_MELS, frames),
        "feature_attention_mask": torch.ones(1, frames, dtype=torch.long),
    }
