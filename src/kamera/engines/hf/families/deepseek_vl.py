"""DeepSeek-VL: one token for each patch of a SigLIP tower with a fixed image size, no wrapper tokens.

The larger checkpoints are hybrid: a second tower sees the image at a higher resolution, and its features
join the first one's, token by token.
"""

from dataclasses import replace
from typing import Any

from torch import Tensor

from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality


class SquareImage(Modality):
    """An image padded to a square of fixed size."""

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        height, width = inputs["pixel_values"].shape[-2:]
        patch = config.vision_config.patch_size
        return int((height // patch) * (width // patch))

    def embed(self, model: Any, inputs: Inputs) -> Tensor:
        """The second tower takes pixels of the model's own dtype alone."""
        return super().embed(
            model, {name: pixels.to(model.dtype) for name, pixels in inputs.items()}
        )


IMAGE = SquareImage(kind="image", marker="<image_placeholder>", token="<image_placeholder>")
HYBRID = replace(IMAGE, inputs=("pixel_values", "high_res_pixel_values"))

FAMILIES = (
    Family("deepseek_vl", "DeepseekVLForConditionalGeneration", (IMAGE,)),
    Family("deepseek_vl_hybrid", "DeepseekVLHybridForConditionalGeneration", (HYBRID,)),
)
