"""DeepSeek-VL: one token for each patch of a SigLIP tower with a fixed image size, no wrapper tokens."""

from typing import Any

from kamera.engines.hf.family import PLAIN_TEXTS, Family
from kamera.engines.hf.modality import Inputs, Modality


class SquareImage(Modality):
    """An image padded to a square of fixed size."""

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        height, width = inputs["pixel_values"].shape[-2:]
        patch = config.vision_config.patch_size
        return int((height // patch) * (width // patch))


IMAGE = SquareImage(kind="image", marker="<image_placeholder>", token="<image_placeholder>")

FAMILIES = (
    Family("deepseek_vl", "DeepseekVLForConditionalGeneration", (IMAGE,), texts=PLAIN_TEXTS),
)
