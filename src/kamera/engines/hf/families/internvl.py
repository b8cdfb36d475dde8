"""InternVL3: an image is cut into tiles, a thumbnail behind them; pixel shuffle merges a tile's patches."""

from typing import Any

from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality


class TiledImage(Modality):
    """Tiles [tiles, 3, H, W] of one size; the thumbnail is the last, and there is none for one tile."""

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        tiles, _, height, width = inputs["pixel_values"].shape
        rows, columns = config.vision_config.patch_size
        patches = (height // rows) * (width // columns)
        return int(tiles * int(patches * config.downsample_ratio**2))

    def expand(self, inputs: Inputs, config: Any, processor: Any) -> str:
        """The template writes the placeholder alone; the processor puts it between two wrapper tokens."""
        count = self.num_placeholders(inputs, config, processor)
        return f"<img>{self.token * count}</img>"


IMAGE = TiledImage(
    kind="image",
    marker="<IMG_CONTEXT>",
    token="<IMG_CONTEXT>",
    options={"crop_to_patches": True},
)

FAMILIES = (Family("internvl", "InternVLForConditionalGeneration", (IMAGE,)),)
