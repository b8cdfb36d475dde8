"""LLaVA-OneVision: an overview tile, then the image in tiles of the best-fitting grid ("anyres")."""

import math
from typing import Any

from transformers.image_processing_utils import select_best_resolution

from kamera.engines.hf.families.llava import tile_tokens
from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality


class AnyresImage(Modality):
    """Tiles [1, tiles, 3, S, S] and the image's own size.

    The tiles' features are put together to one grid, what stands for padding is cut off, and each row
    ends in a newline feature. Every image is laid out so, also in a window of several.
    """

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        height, width = inputs["pixel_values"].shape[-2:]
        rows, columns = feature_grid(inputs["image_sizes"][0].tolist(), config)
        return tile_tokens(height, width, config) + rows * (columns + 1)


def feature_grid(size: list[int], config: Any) -> tuple[int, int]:
    """Rows and columns of features, newlines aside, of an image of `size` (height, width) pixels."""
    height, width = size
    best_height, best_width = select_best_resolution(size, config.image_grid_pinpoints)
    tile = config.vision_config.image_size
    side = tile // config.vision_config.patch_size
    rows, columns = best_height // tile * side, best_width // tile * side
    if width / height > columns / rows:
        rows -= 2 * ((rows - int(round(height * (columns / width), 7))) // 2)
    else:
        columns -= 2 * ((columns - int(round(width * (rows / height), 7))) // 2)
    most = int(config.vision_aspect_ratio.removeprefix("anyres_max_"))
    ratio = math.sqrt(rows * columns / (most * side**2))
    return (int(rows // ratio), int(columns // ratio)) if ratio > 1.1 else (rows, columns)


IMAGE = AnyresImage(
    kind="image", marker="<image>", token="<image>", inputs=("pixel_values", "image_sizes")
)

FAMILIES = (Family("llava_onevision", "LlavaOnevisionForConditionalGeneration", (IMAGE,)),)
