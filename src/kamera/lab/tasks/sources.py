"""Real pixels that install from packages: handwritten digits and easy-vqa's shapes, train and test apart."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import UInt8
from PIL import Image

Split = Literal["train", "test"]
DigitPixels = UInt8[np.ndarray, "8 8"]

COLORS: dict[str, tuple[int, int, int]] = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "teal": (0, 128, 128),
    "black": (0, 0, 0),
    "gray": (128, 128, 128),
    "brown": (165, 42, 42),
}
"""easy-vqa's palette: every shape is filled with exactly one of these."""

SHAPES = ("circle", "rectangle", "triangle")


@functools.cache
def digit_images(split: Split) -> dict[int, list[DigitPixels]]:
    """scikit-learn's handwritten digits, 8x8 grey, by class; every fifth image of a class is test."""
    from sklearn.datasets import load_digits

    data = load_digits()
    by_class: dict[int, list[DigitPixels]] = {}
    for digit in range(10):
        images = data.images[data.target == digit]
        chosen = [im for i, im in enumerate(images) if (i % 5 == 0) == (split == "test")]
        by_class[digit] = [np.round(im * (255 / 16)).astype(np.uint8) for im in chosen]
    return by_class


@dataclass(frozen=True)
class ShapeImage:
    """One easy-vqa image, 64x64, with its two facts."""

    path: Path
    color: str
    shape: str

    def load(self) -> Image.Image:
        with Image.open(self.path) as image:
            return image.convert("RGB")


@functools.cache
def shape_images(split: Split) -> list[ShapeImage]:
    """easy-vqa's images of the split whose shape its own questions tell; the color is in the pixels."""
    import easy_vqa

    questions, answers, ids = (
        easy_vqa.get_train_questions() if split == "train" else easy_vqa.get_test_questions()
    )
    shapes: dict[int, str] = {}
    for question, answer, image_id in zip(questions, answers, ids, strict=True):
        if answer in SHAPES:
            shapes[image_id] = answer
        elif answer == "yes" and not {"no", "not"} & set(question.split()):
            named = [shape for shape in SHAPES if shape in question]
            if len(named) == 1:
                shapes[image_id] = named[0]
    folder = Path(easy_vqa.__file__).parent / "data" / split / "images"
    return [
        ShapeImage(folder / f"{i}.png", _fill_color(folder / f"{i}.png"), shape)
        for i, shape in sorted(shapes.items())
    ]


def _fill_color(path: Path) -> str:
    """The palette color that fills most pixels (the background is never a palette color)."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    counts = {name: int((pixels == rgb).all(axis=1).sum()) for name, rgb in COLORS.items()}
    return max(counts, key=lambda name: counts[name])
