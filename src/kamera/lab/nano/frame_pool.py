"""A pool of rendered training frames: their pixels, and the labels of every merged token."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kamera.lab.tasks.draw import any_digit, any_item, any_needle, legends
from kamera.lab.tasks.frames import (
    INK,
    SMALL_PX,
    TILE_PX,
    TOKEN_PX,
    Frame,
    ball,
    item,
    legend,
    needle,
    swap,
)
from kamera.lab.tasks.sources import COLORS, SHAPES, Split, shape_images

IGNORE = -100
HEADS = {"color": len(COLORS) + 1, "digit": 11, "shape": len(SHAPES), "star": 2, "shell": 6}
"""The dense labels of the vision stage and their class counts (the last color and digit mean none)."""


def token_labels(frame: Frame, side: int) -> dict[str, Tensor]:
    """Dense labels of one frame's `side * side` merged tokens, raster order; IGNORE where undefined."""
    labels = {name: torch.full((side, side), IGNORE) for name in HEADS}
    if frame.kind == "legend":
        _label_tiles(frame, labels)
    elif frame.kind == "item":
        labels["color"][:] = list(COLORS).index(frame.color or "")
        shown = _shown(frame, side, COLORS[frame.color or "black"])
        labels["shape"][shown] = SHAPES.index(frame.shape or "")
    elif frame.kind == "needle":
        shown = _shown(frame, side, INK)
        labels["digit"][shown] = frame.digit if frame.digit is not None else 10
        labels["star"][:] = int(frame.starred)
    elif frame.cup is not None:
        labels["shell"][:] = frame.cup
    elif frame.swap is not None:
        labels["shell"][:] = 3 + frame.swap
    return {name: value.flatten() for name, value in labels.items()}


def _shown(frame: Frame, side: int, color: tuple[int, int, int]) -> Tensor:
    """The tokens with more than a little of `color`: where the shape or the digit is. [side, side]"""
    pixels = torch.from_numpy(np.asarray(frame.image).astype(np.int16))
    near = ((pixels - torch.tensor(color)).abs().amax(-1) < 90).float()
    return near.view(side, TOKEN_PX, side, TOKEN_PX).mean((1, 3)) > 0.03


def _label_tiles(frame: Frame, labels: dict[str, Tensor]) -> None:
    labels["color"][:], labels["digit"][:] = len(COLORS), 10
    span = TILE_PX // TOKEN_PX
    for tile in frame.tiles:
        row, column = (c * span for c in tile.cell)
        labels["color"][row : row + span, column : column + span] = list(COLORS).index(tile.color)
        labels["digit"][row : row + span, column : column + span] = tile.digit


@dataclass(frozen=True)
class FramePool:
    """Frames of one size, without images of their own. `images`: uint8 `[num_frames, size, size, 3]`."""

    frames: list[Frame]
    images: Tensor
    labels: dict[str, Tensor]


def build_pool(draw: Callable[[np.random.Generator], Frame], count: int, seed: int) -> FramePool:
    """Draw `count` frames of one size, with the labels of every merged token."""
    rng = np.random.default_rng(seed)
    frames = [draw(rng) for _ in range(count)]
    images = torch.stack([torch.from_numpy(np.array(frame.image)) for frame in frames])
    side = images.shape[1] // TOKEN_PX
    labels = [token_labels(frame, side) for frame in frames]
    for frame in frames:
        object.__setattr__(frame, "image", None)  # gigabytes, held as one tensor already
    stacked = {name: torch.stack([label[name] for label in labels]) for name in HEADS}
    return FramePool(frames, images, stacked)


def draw_legend(rng: np.random.Generator, split: Split = "train", augment: bool = True) -> Frame:
    """One to four entries."""
    entries = int(rng.integers(1, 5))
    return legends(rng, split, num_frames=1, num_entries=entries, augment=augment)[0]


def draw_item(rng: np.random.Generator, split: Split = "train") -> Frame:
    """An easy-vqa picture."""
    return any_item(rng, split)


def draw_needle(rng: np.random.Generator, split: Split = "train", augment: bool = True) -> Frame:
    """A digit, starred or not."""
    return any_needle(rng, split, starred=bool(rng.integers(2)), augment=augment)


def draw_large(split: Split, augment: bool) -> Callable[[np.random.Generator], Frame]:
    """Legend, item and needle frames in equal parts."""

    def draw(rng: np.random.Generator) -> Frame:
        kind = int(rng.integers(3))
        if kind == 0:
            return draw_legend(rng, split, augment)
        return draw_item(rng, split) if kind == 1 else draw_needle(rng, split, augment)

    return draw


def draw_tile(rng: np.random.Generator) -> Frame:
    """One legend tile alone, 56 pixels: where digits are learned cheaply."""
    digit = int(rng.integers(10))
    entry = (str(rng.choice(list(COLORS))), digit, any_digit(rng, "train", digit))
    return legend([entry], rng, augment=True, size=TILE_PX)


def draw_half(rng: np.random.Generator) -> Frame:
    """A digit or an easy-vqa picture at 112 pixels."""
    if rng.integers(2):
        pictures = shape_images("train")
        return item(pictures[int(rng.integers(len(pictures)))], size=SMALL_PX)
    digit = int(rng.integers(10))
    pixels = any_digit(rng, "train", digit)
    return needle(digit, pixels, rng, starred=False, augment=True, size=SMALL_PX)


def draw_small(rng: np.random.Generator) -> Frame:
    """Shell-game frames."""
    return ball(int(rng.integers(3)), rng) if rng.integers(2) else swap(int(rng.integers(3)), rng)
