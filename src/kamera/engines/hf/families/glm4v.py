"""GLM-4.1V, GLM-4.5V: grids of merged patches, sectioned M-RoPE over half of each head.

GLM-4.1V turns neighbouring channels, GLM-4.5V channels half of the rotated part apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kamera.engines.hf.families.qwen_vl import CLIP_MEAN, CLIP_STD, GridImage, StampedVideo
from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs
from kamera.engines.hf.video_processor import VideoProcessor


@dataclass(frozen=True, kw_only=True)
class FrameVideo(StampedVideo):
    """Each temporal patch is written as an image, its whole second behind it.

    The placeholder is the image's own, which is why the marker's `token` is replaced by it.
    """

    def expand(self, inputs: Inputs, config: Any, processor: Any) -> str:
        grids = self.grids(inputs, config)
        seconds = inputs["frame_seconds"].tolist()[:: processor.temporal_patch_size]
        pieces = [
            f"<|begin_of_image|>{'<|image|>' * grid.num_tokens}<|end_of_image|>{int(at)}"
            for grid, at in zip(grids, seconds, strict=True)
        ]
        return self.marker.replace("<|video|>", "".join(pieces))

    def token_id(self, config: Any) -> int:
        return int(config.image_token_id)


IMAGE = GridImage(
    kind="image",
    marker="<|begin_of_image|><|image|><|end_of_image|>",
    token="<|image|>",
    inputs=("pixel_values", "image_grid_thw"),
)

VIDEO = FrameVideo(
    kind="video",
    marker="<|begin_of_video|><|video|><|end_of_video|>",
    token="<|image|>",
    inputs=("pixel_values_videos", "video_grid_thw"),
    processor=VideoProcessor(
        shortest_edge=112 * 112,
        longest_edge=28 * 28 * 2 * 30000,
        budget="clip",
        patch_size=14,
        mean=CLIP_MEAN,
        std=CLIP_STD,
    ),
)

FAMILIES = (
    Family("glm4v", "Glm4vForConditionalGeneration", (IMAGE, VIDEO), rope_layout="pairs"),
    Family("glm4v_moe", "Glm4vMoeForConditionalGeneration", (IMAGE, VIDEO), rope_layout="half"),
)
