"""Model families: the model types that are served, as a table. A new family is a row."""

from dataclasses import dataclass
from typing import Any

from kamera.errors import UnsupportedModelError
from kamera.positions import PositionLayout, wrapped_image_layout


@dataclass(frozen=True)
class Family:
    """One model type's wrapper tokens and how many merged tokens an image's grid makes."""

    model_type: str
    vision_start: str
    image_pad: str
    vision_end: str

    def merged_grid(self, grid: tuple[int, int, int], merge: int) -> tuple[int, int]:
        """Rows and columns of the tokens that the language model sees."""
        return grid[1] // merge, grid[2] // merge

    def image_layout(self, grid: tuple[int, int, int], merge: int) -> PositionLayout:
        """Positions of one wrapped image."""
        height, width = self.merged_grid(grid, merge)
        return wrapped_image_layout(height, width, num_before=1, num_after=1)


FAMILIES = {
    "qwen2_5_vl": Family("qwen2_5_vl", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"),
}


def family_of(config: Any) -> Family:
    """The family of a loaded config.

    Raises:
        UnsupportedModelError: no row for its model type, or layers whose KV can't be reused.
    """
    model_type = getattr(config, "model_type", None)
    if model_type not in FAMILIES:
        raise UnsupportedModelError(
            f"Model type {model_type!r} isn't supported: expected one of {sorted(FAMILIES)}. "
            "Use a supported checkpoint, or serve this one without Kamera."
        )
    layer_types = set(getattr(config.text_config, "layer_types", None) or ["full_attention"])
    if layer_types != {"full_attention"}:
        raise UnsupportedModelError(
            f"Layers of type {sorted(layer_types - {'full_attention'})} can't be reused: their KV "
            "doesn't hold the whole chunk. Expected full attention in every layer."
        )
    return FAMILIES[model_type]
