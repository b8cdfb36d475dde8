"""The frames that tasks are made of: legend, item, needle and shell-game pictures.

A frame is a PIL image with the labels that a dense loss may use (training only). Sizes in pixels are
multiples of 28, Qwen2.5-VL's merged token: 224 x 224 makes 8 x 8 tokens, 112 x 112 makes 4 x 4.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw

from kamera.lab.tasks.sources import COLORS, DigitPixels, ShapeImage

FRAME_PX = 224
SMALL_PX = 112
TILE_PX = 56
TOKEN_PX = 28
INK = (20, 20, 60)
CUPS = ("left", "middle", "right")
SWAPS = ((0, 1), (0, 2), (1, 2))

FrameKind = Literal["legend", "item", "needle", "ball", "swap"]


@dataclass(frozen=True)
class Tile:
    """One legend entry: a color and its handwritten digit, at cell (row, column) of the 4 x 4 grid."""

    color: str
    digit: int
    cell: tuple[int, int]


@dataclass(frozen=True)
class Frame:
    """A picture and what it shows."""

    image: Image.Image
    kind: FrameKind
    tiles: tuple[Tile, ...] = ()
    color: str | None = None
    shape: str | None = None
    digit: int | None = None
    starred: bool = False
    cup: int | None = None
    swap: int | None = None


def _paper(rng: np.random.Generator, size: int) -> Image.Image:
    tint = rng.integers(225, 256, size=3)
    return Image.new("RGB", (size, size), tuple(int(c) for c in tint))


def _ink(pixels: DigitPixels, size: int, rng: np.random.Generator | None) -> Image.Image:
    """The digit as an ink mask of `size` pixels; a generator turns, shears, scales, moves and fades it."""
    mask = Image.fromarray(pixels).resize((size, size), Image.Resampling.BICUBIC)
    if rng is None:
        return mask
    angle, (shear_x, shear_y) = math.radians(rng.uniform(-15, 15)), rng.uniform(-0.2, 0.2, size=2)
    scale_x, scale_y = 1 / rng.uniform(0.75, 1.05, size=2)
    shift_x, shift_y = rng.uniform(-0.06, 0.06, size=2) * size
    cos, sin = math.cos(angle), math.sin(angle)
    turn = np.array([[cos, -sin], [sin, cos]]) @ np.array([[1, shear_x], [shear_y, 1]])
    turn = turn @ np.diag([scale_x, scale_y])
    center = np.array([size / 2, size / 2])
    offset = center - turn @ (center + np.array([shift_x, shift_y]))
    matrix = (*turn[0], offset[0], *turn[1], offset[1])
    moved = mask.transform(
        (size, size), Image.Transform.AFFINE, matrix, resample=Image.Resampling.BILINEAR
    )
    strength = rng.uniform(0.75, 1.0)
    return moved.point(lambda ink: int(ink * strength))


def legend(
    entries: list[tuple[str, int, DigitPixels]],
    rng: np.random.Generator,
    *,
    augment: bool = False,
    size: int = FRAME_PX,
) -> Frame:
    """A sheet with one tile an entry: a colored border around the handwritten digit."""
    image = _paper(rng, size)
    draw = ImageDraw.Draw(image)
    per_side = size // TILE_PX
    cells = rng.choice(per_side * per_side, size=len(entries), replace=False)
    tiles = []
    for (color, digit, pixels), cell in zip(entries, cells, strict=True):
        row, column = divmod(int(cell), per_side)
        x, y = column * TILE_PX, row * TILE_PX
        draw.rectangle((x, y, x + TILE_PX - 1, y + TILE_PX - 1), fill=COLORS[color])
        draw.rectangle((x + 8, y + 8, x + TILE_PX - 9, y + TILE_PX - 9), fill=(255, 255, 255))
        mask = _ink(pixels, TILE_PX - 16, rng if augment else None)
        image.paste(INK, (x + 8, y + 8), mask)
        tiles.append(Tile(color, digit, (row, column)))
    return Frame(image, "legend", tiles=tuple(tiles))


def item(source: ShapeImage, *, size: int = FRAME_PX) -> Frame:
    """One easy-vqa picture, enlarged to a frame."""
    image = source.load().resize((size, size), Image.Resampling.BICUBIC)
    return Frame(image, "item", color=source.color, shape=source.shape)


def needle(
    digit: int,
    pixels: DigitPixels,
    rng: np.random.Generator,
    *,
    starred: bool,
    augment: bool = False,
    size: int = FRAME_PX,
) -> Frame:
    """One large handwritten digit; the needle frame has a star beside it."""
    image = _paper(rng, size)
    corner = rng.integers(0, size // SMALL_PX, size=2)
    x, y = (int(c) * SMALL_PX for c in corner)
    mask = _ink(pixels, SMALL_PX, rng if augment else None)
    image.paste(INK, (x, y), mask)
    if starred:
        _star(ImageDraw.Draw(image), size - x - 56, int(rng.integers(40, size - 40)))
    return Frame(image, "needle", digit=digit, starred=starred)


def _star(draw: ImageDraw.ImageDraw, x: int, y: int, radius: int = 34) -> None:
    points = []
    for i in range(10):
        r = radius if i % 2 == 0 else radius * 0.42
        a = math.pi * i / 5 - math.pi / 2
        points.append((x + r * math.cos(a), y + r * math.sin(a)))
    draw.polygon(points, fill=(230, 120, 20))


def _cups(rng: np.random.Generator, lifted: int | None = None) -> tuple[Image.Image, list[int]]:
    image = _paper(rng, SMALL_PX)
    draw = ImageDraw.Draw(image)
    centers = [20, 56, 92]
    for i, x in enumerate(centers):
        top = 52 if i == lifted else 66
        draw.polygon(
            [(x - 9, top), (x + 9, top), (x + 14, top + 30), (x - 14, top + 30)], fill=(150, 90, 40)
        )
    return image, centers


def ball(cup: int, rng: np.random.Generator) -> Frame:
    """The first shell-game frame: three cups, one lifted, the ball under it."""
    image, centers = _cups(rng, lifted=cup)
    x = centers[cup]
    ImageDraw.Draw(image).ellipse((x - 10, 86, x + 10, 106), fill=(220, 20, 20))
    return Frame(image, "ball", cup=cup)


def swap(which: int, rng: np.random.Generator) -> Frame:
    """A later shell-game frame: a blue arc joins the two cups that change places."""
    image, centers = _cups(rng)
    left, right = (centers[i] for i in SWAPS[which])
    draw = ImageDraw.Draw(image)
    draw.arc((left, 20, right, 100), 180, 360, fill=(30, 60, 220), width=7)
    for x in (left, right):
        draw.polygon([(x - 9, 50), (x + 9, 50), (x, 64)], fill=(30, 60, 220))
    return Frame(image, "swap", swap=which)
