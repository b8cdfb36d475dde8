"""LLaVA-1.5: one token for each patch of a tower with a fixed image size, no wrapper tokens."""

from typing import Any

from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality


class PatchImage(Modality):
    """An image of fixed size: its patches, and the class token where the config selects it."""

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        height, width = inputs["pixel_values"].shape[-2:]
        patch = config.vision_config.patch_size
        class_tokens = int(config.vision_feature_select_strategy == "full")
        return int((height // patch) * (width // patch)) + class_tokens


IMAGE = PatchImage(kind="image", marker="<image>", token="<image>")

FAMILIES = (Family("llava", "LlavaForConditionalGeneration", (IMAGE,)),)
