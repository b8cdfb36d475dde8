"""LLaVA-1.5: one token for each patch of a tower with a fixed image size, no wrapper tokens."""

from typing import Any

from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality


class PatchImage(Modality):
    """An image of fixed size: its patches, and the class token where the tower has and keeps one."""

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        height, width = inputs["pixel_values"].shape[-2:]
        return tile_tokens(height, width, config)


def tile_tokens(height: int, width: int, config: Any) -> int:
    """Features of one tile of `height` x `width` pixels. The strategy `default` drops the first one."""
    patch = config.vision_config.patch_size
    class_tokens = int("siglip" not in config.vision_config.model_type)
    dropped = int(config.vision_feature_select_strategy == "default")
    return int((height // patch) * (width // patch)) + class_tokens - dropped


IMAGE = PatchImage(kind="image", marker="<image>", token="<image>")

FAMILIES = (Family("llava", "LlavaForConditionalGeneration", (IMAGE,)),)
