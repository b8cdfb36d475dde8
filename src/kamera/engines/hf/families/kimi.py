"""Kimi-K2.5: a grid of merged patches that count one by one; the text model is DeepSeek-V3 (MLA)."""

from typing import Any

from torch import Tensor

from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality


class GridImage(Modality):
    """An image of `image_grid_thw` patches, one kernel of `merge_kernel_size` to a token."""

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        _, height, width = inputs["image_grid_thw"][0].tolist()
        rows, columns = config.vision_config.merge_kernel_size
        return int((height // rows) * (width // columns))

    def embed(self, model: Any, inputs: Inputs) -> Tensor:
        """The tower takes pixels of the model's own dtype alone."""
        pixels = inputs["pixel_values"].to(model.dtype)
        return super().embed(model, {**inputs, "pixel_values": pixels})


IMAGE = GridImage(
    kind="image",
    marker="<|media_begin|>image<|media_content|><|media_pad|><|media_end|>",
    token="<|media_pad|>",
    inputs=("pixel_values", "image_grid_thw"),
)

FAMILIES = (Family("kimi_k25", "Kimi_K25ForConditionalGeneration", (IMAGE,)),)
