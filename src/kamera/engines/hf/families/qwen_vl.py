"""Qwen-VL: an image is a grid of merged patches between two wrapper tokens, its positions M-RoPE."""

from typing import Any

from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality
from kamera.positions import PositionLayout, wrapped_media_layout


class GridImage(Modality):
    """A still image of `image_grid_thw` patches, `spatial_merge_size`² of them to a token."""

    def merged_grid(self, inputs: Inputs, config: Any) -> tuple[int, int]:
        """Rows and columns of the tokens that the language model sees."""
        _, height, width = inputs["image_grid_thw"][0].tolist()
        merge = config.vision_config.spatial_merge_size
        return height // merge, width // merge

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        height, width = self.merged_grid(inputs, config)
        return height * width

    def layout(self, token_ids: tuple[int, ...], inputs: Inputs, config: Any) -> PositionLayout:
        height, width = self.merged_grid(inputs, config)
        before = token_ids.index(self.token_id(config))
        after = len(token_ids) - before - height * width
        return wrapped_media_layout((0,), height, width, before, after)


IMAGE = GridImage(
    kind="image",
    marker="<|vision_start|><|image_pad|><|vision_end|>",
    token="<|image_pad|>",
    inputs=("pixel_values", "image_grid_thw"),
)

FAMILIES = (
    Family("qwen2_vl", "Qwen2VLForConditionalGeneration", (IMAGE,)),
    Family("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", (IMAGE,)),
    Family("qwen3_vl", "Qwen3VLForConditionalGeneration", (IMAGE,)),
    Family("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", (IMAGE,)),
)
