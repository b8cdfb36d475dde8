"""Kimi-K2.5's image processor on Pillow: Transformers has it for torchvision alone.

The same geometry and constants, from the checkpoint's own `preprocessor_config.json`. Resampling is
Pillow's, so pixels of resized images differ from torchvision's by its rounding; others are equal.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from transformers.image_processing_backends import PilBackend
from transformers.image_processing_utils import BatchFeature
from transformers.image_utils import (
    IMAGENET_STANDARD_MEAN,
    IMAGENET_STANDARD_STD,
    PILImageResampling,
    SizeDict,
)
from transformers.processing_utils import ImagesKwargs


class KimiImagesKwargs(ImagesKwargs, total=False):  # type: ignore[misc, call-arg]
    """The family's own settings, beside those that all image processors have."""

    max_patches: int
    patch_size: int
    merge_size: int


class Kimi_K25ImageProcessorPil(PilBackend):  # type: ignore[misc]  # noqa: N801 (the library's own naming)
    """Scale down to the patch budget, pad to whole merge kernels, cut into patches."""

    do_resize = True
    do_rescale = True
    do_normalize = True
    do_convert_rgb = True
    resample = PILImageResampling.BICUBIC
    size: ClassVar[dict[str, int]] = {"max_height": 512, "max_width": 512}  # in patches
    max_patches = 16384
    patch_size = 14
    merge_size = 2
    image_mean = IMAGENET_STANDARD_MEAN
    image_std = IMAGENET_STANDARD_STD
    valid_kwargs = KimiImagesKwargs
    model_input_names: ClassVar[list[str]] = ["pixel_values", "image_grid_thw"]

    def _preprocess(self, images: list[Any], return_tensors: Any = None, **settings: Any) -> Any:
        patches, grids = [], []
        for image in images:
            values, grid = self._patches(image, settings)
            patches.append(values)
            grids.append(grid)
        data = {"pixel_values": np.concatenate(patches), "image_grid_thw": np.array(grids)}
        return BatchFeature(data=data, tensor_type=return_tensors)

    def _patches(self, image: Any, settings: dict[str, Any]) -> tuple[Any, tuple[int, int, int]]:
        """One image [3, H, W] as patches [rows · columns, 3, patch, patch], row after row."""
        patch = settings["patch_size"]
        if settings["do_resize"]:
            height, width = scaled_size(image.shape[-2], image.shape[-1], settings)
            size = SizeDict(height=height, width=width)
            image = self.resize(image, size, resample=settings["resample"])
            whole = patch * settings["merge_size"]
            target = SizeDict(height=_up_to(height, whole), width=_up_to(width, whole))
            image = self.pad([image], target)[0]
        if settings["do_rescale"]:
            image = self.rescale(image, settings["rescale_factor"])
        if settings["do_normalize"]:
            image = self.normalize(image, settings["image_mean"], settings["image_std"])
        channels, height, width = image.shape
        rows, columns = height // patch, width // patch
        cut = image.reshape(channels, rows, patch, columns, patch).transpose(1, 3, 0, 2, 4)
        return cut.reshape(rows * columns, channels, patch, patch), (1, rows, columns)


def scaled_size(height: int, width: int, settings: dict[str, Any]) -> tuple[int, int]:
    """Pixels after scaling down to the budget of patches, in all and a side; never up."""
    patch, longest = settings["patch_size"], settings["size"].max_height * settings["patch_size"]
    num_patches = max(1, height // patch) * max(1, width // patch)
    budget = math.sqrt(settings["max_patches"] / num_patches)
    scale = min(1.0, budget, longest / height, longest / width)
    sides = (max(1, min(longest, int(side * scale))) for side in (height, width))
    return next(sides), next(sides)


def _up_to(length: int, step: int) -> int:
    return -(-length // step) * step
