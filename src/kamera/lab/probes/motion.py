"""Block matching: where each cell of a frame was in the frame before it, and what it looked like there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from kamera.errors import ConfigError

STEP_PX = 4
"""Displacements are tried on this grid: cells are large, and a token can't tell less."""


@dataclass(frozen=True, eq=False)
class Motion:
    """By cell, row by row.

    Attributes:
        moved_px: length of the best displacement, pixels; of equally good ones the shortest.
        residual: mean absolute difference of brightness (0 to 1) at the best displacement.
        still: the same without displacement.
        cosine: of the cell's pixels with those at the same place before.
        source: the cell of the frame before in which the best match has its middle.
    """

    moved_px: Float[np.ndarray, " cells"]
    residual: Float[np.ndarray, " cells"]
    still: Float[np.ndarray, " cells"]
    cosine: Float[np.ndarray, " cells"]
    source: Int[np.ndarray, " cells"]


def block_motion(before: Any, now: Any, grid: tuple[int, int]) -> Motion:
    """Match each of rows x columns cells of `now` in `before`, up to one cell away.

    Args:
        before, now: PIL images of one size.
        grid: rows and columns of tokens.

    Raises:
        ConfigError: frames of different sizes.
    """
    if before.size != now.size:
        raise ConfigError(
            f"Can't match frames of {before.size} and {now.size} pixels: expected one size"
        )
    old, new = (np.asarray(image.convert("L"), dtype=np.float64) / 255 for image in (before, now))
    rows, columns = grid
    height, width = new.shape[0] // rows, new.shape[1] // columns
    found = [
        _match(old, new, (row * height, column * width), (height, width))
        for row in range(rows)
        for column in range(columns)
    ]
    moves = [shift for shift, *_ in found]
    source = [
        min((n // columns) * height + dy + height // 2, old.shape[0] - 1) // height * columns
        + min((n % columns) * width + dx + width // 2, old.shape[1] - 1) // width
        for n, (dy, dx) in enumerate(moves)
    ]
    residual, still, cosine = np.array([rest for _, *rest in found], dtype=np.float64).T
    moved_px = np.array([float(np.hypot(*move)) for move in moves])
    return Motion(moved_px, residual, still, cosine, np.array(source))


def shifts(reach_y: int, reach_x: int) -> list[tuple[int, int]]:
    """All displacements on the grid up to these, the shortest first."""
    every = [
        (dy, dx)
        for dy in range(-reach_y, reach_y + 1, STEP_PX)
        for dx in range(-reach_x, reach_x + 1, STEP_PX)
    ]
    return sorted(every, key=lambda shift: (shift[0] ** 2 + shift[1] ** 2, shift))


def _match(
    old: Any, new: Any, at: tuple[int, int], size: tuple[int, int]
) -> tuple[tuple[int, int], float, float, float]:
    """The best displacement, its residual, that of none, and the cosine without displacement."""
    (y, x), (height, width) = at, size
    cell = new[y : y + height, x : x + width]
    best, least, still, cosine = (0, 0), np.inf, 0.0, 0.0
    for dy, dx in shifts(height // STEP_PX * STEP_PX, width // STEP_PX * STEP_PX):
        top, left = y + dy, x + dx
        if top < 0 or left < 0 or top + height > old.shape[0] or left + width > old.shape[1]:
            continue
        there = old[top : top + height, left : left + width]
        gap = float(np.abs(cell - there).mean())
        if (dy, dx) == (0, 0):
            still = gap
            norms = np.linalg.norm(cell) * np.linalg.norm(there)
            cosine = float((cell * there).sum() / max(norms, 1e-12))
        if gap < least:
            best, least = (dy, dx), gap
    return best, least, still, cosine
