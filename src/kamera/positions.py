"""Position layouts: where each token of a chunk stands, counted from the chunk's own start.

A chunk moves as one: its absolute positions are `start + local` on every axis, and the chunk after it
starts `extent` later. For 1-D RoPE the extent is the token count. For M-RoPE it isn't: an image of
h x w merged tokens takes max(h, w) steps of the counter (Qwen2-VL report, section 2.1).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from kamera.errors import ConfigError
from kamera.shapes import Positions


@dataclass(frozen=True, eq=False)
class PositionLayout:
    """`local` [T, P], int64, first token at 0 on every axis; `extent` in positions, not tokens."""

    local: Positions
    extent: int

    def at(self, start: int) -> Positions:
        """Absolute positions [T, P] when the chunk starts at `start`."""
        return self.local + start


class Grid(NamedTuple):
    """One run of media tokens: frames of `height` x `width` tokens, frame i at `frames[i]` on the t axis."""

    frames: tuple[int, ...]
    height: int
    width: int

    @property
    def num_tokens(self) -> int:
        """All frames' tokens."""
        return len(self.frames) * self.height * self.width


def text_layout(num_tokens: int, num_axes: int) -> PositionLayout:
    """Text counts one by one, the same on every axis."""
    if num_tokens < 1:
        raise ConfigError(f"Invalid num_tokens: expected at least 1, got {num_tokens}")
    steps = torch.arange(num_tokens)[:, None].expand(-1, num_axes).contiguous()
    return PositionLayout(steps, num_tokens)


def wrapped_media_layout(
    frames: Sequence[int], height: int, width: int, num_before: int, num_after: int
) -> PositionLayout:
    """M-RoPE of an image, or of a video's frames, between wrapper tokens.

    The wrapper before counts as text. Frame i of `height` x `width` merged tokens stands at `frames[i]`
    on the t axis, its tokens spread over h and w; the wrapper after resumes one past the largest
    position on any axis. A still image is `frames=(0,)`. `frames` are in positions, not seconds.

    Raises:
        ConfigError: no frame, frames that run backwards, or an empty grid.
    """
    steps = [int(step) for step in frames]
    if not steps or steps[0] != 0 or steps != sorted(steps):
        raise ConfigError(
            f"Invalid frames: expected positions from 0 on that never fall, got {steps[:8]}"
        )
    if min(height, width) < 1 or min(num_before, num_after) < 0:
        raise ConfigError(
            f"Invalid media layout: expected a grid of at least 1 x 1, got {height} x {width} with "
            f"{num_before} tokens before and {num_after} after"
        )
    before = torch.arange(num_before)[:, None].expand(-1, 3)
    axes = torch.meshgrid(
        torch.tensor(steps), torch.arange(height), torch.arange(width), indexing="ij"
    )
    media = torch.stack(axes, dim=-1).reshape(-1, 3)
    resume = num_before + max(steps[-1] + 1, height, width)
    after = torch.arange(num_after)[:, None].expand(-1, 3) + resume
    local = torch.cat([before, media + num_before, after]).contiguous()
    return PositionLayout(local, resume + num_after)


def media_layout(is_media: Sequence[bool], grids: Sequence[Grid]) -> PositionLayout:
    """M-RoPE of text and runs of media tokens, one grid a run: an image, a video, a video in pieces.

    Raises:
        ConfigError: runs that aren't the grids' token counts, in their order, or an invalid grid.
    """
    lengths = [(media, len(list(run))) for media, run in itertools.groupby(map(bool, is_media))]
    found = [length for media, length in lengths if media]
    if found != [grid.num_tokens for grid in grids]:
        raise ConfigError(
            f"Invalid media layout: expected runs of {[grid.num_tokens for grid in grids][:8]} media "
            f"tokens, got {found[:8]}"
        )
    left = iter(grids)
    parts = [
        wrapped_media_layout(*next(left), 0, 0) if media else text_layout(length, 3)
        for media, length in lengths
    ]
    return _joined(parts)


def _joined(parts: Sequence[PositionLayout]) -> PositionLayout:
    placed, extent = [], 0
    for part in parts:
        placed.append(part.at(extent))
        extent += part.extent
    if not placed:
        raise ConfigError("Invalid media layout: expected at least one token, got none")
    return PositionLayout(torch.cat(placed), extent)
