"""Random frames for the tasks: which colors, digits and pictures, from the split's own images."""

import numpy as np

from kamera.lab.tasks.frames import Frame, item, legend, needle
from kamera.lab.tasks.sources import COLORS, DigitPixels, Split, digit_images, shape_images


def legends(
    rng: np.random.Generator,
    split: Split,
    *,
    num_frames: int,
    num_entries: int,
    augment: bool = False,
) -> list[Frame]:
    """`num_frames` legend frames that share `num_entries` entries; colors and digits are distinct."""
    colors = rng.permutation(list(COLORS))[:num_entries]
    digits = rng.permutation(10)[:num_entries]
    frame_of = np.concatenate([np.arange(num_frames), rng.integers(0, num_frames, num_entries)])
    frames = []
    for f in range(num_frames):
        entries = [
            (str(colors[i]), int(digits[i]), any_digit(rng, split, int(digits[i])))
            for i in range(num_entries)
            if frame_of[i] == f
        ]
        frames.append(legend(entries, rng, augment=augment))
    return frames


def any_digit(rng: np.random.Generator, split: Split, digit: int) -> DigitPixels:
    """A random handwritten digit of this class."""
    images = digit_images(split)[digit]
    return images[int(rng.integers(len(images)))]


def any_item(rng: np.random.Generator, split: Split, colors: list[str] | None = None) -> Frame:
    """A random easy-vqa picture, of one of `colors` when given."""
    pictures = shape_images(split)
    if colors is not None:
        pictures = [p for p in pictures if p.color in colors]
    return item(pictures[int(rng.integers(len(pictures)))])


def any_needle(
    rng: np.random.Generator, split: Split, *, starred: bool, augment: bool = False
) -> Frame:
    digit = int(rng.integers(10))
    return needle(digit, any_digit(rng, split, digit), rng, starred=starred, augment=augment)
