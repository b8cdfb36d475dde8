"""Position layouts: where each token of a chunk stands, counted from the chunk's own start.

A chunk moves as one: its absolute positions are `start + local` on every axis, and the chunk after it
starts `extent` later. For 1-D RoPE the extent is the token count. For M-RoPE it isn't: an image of
h x w merged tokens takes max(h, w) steps of the counter (Qwen2-VL report, section 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass

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


def text_layout(num_tokens: int, num_axes: int) -> PositionLayout:
    """Text counts one by one, the same on every axis."""
    if num_tokens < 1:
        raise ConfigError(f"Invalid num_tokens: expected at least 1, got {num_tokens}")
    steps = torch.arange(num_tokens)[:, None].expand(-1, num_axes).contiguous()
    return PositionLayout(steps, num_tokens)


def wrapped_image_layout(
    height: int, width: int, num_before: int, num_after: int
) -> PositionLayout:
    """Sectioned M-RoPE of one still image of `height` x `width` merged tokens between wrapper tokens.

    The wrapper before counts as text; the image's tokens share t and spread over h and w; the wrapper
    after resumes at max(height, width).
    """
    if min(height, width) < 1 or min(num_before, num_after) < 0:
        raise ConfigError(
            f"Invalid image layout: expected a grid of at least 1 x 1, got {height} x {width} with "
            f"{num_before} tokens before and {num_after} after"
        )
    before = torch.arange(num_before)[:, None].expand(-1, 3)
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    image = torch.stack([torch.zeros_like(rows), rows, columns], dim=-1).reshape(-1, 3)
    resume = num_before + max(height, width)
    after = torch.arange(num_after)[:, None].expand(-1, 3) + resume
    local = torch.cat([before, image + num_before, after]).contiguous()
    return PositionLayout(local, resume + num_after)
