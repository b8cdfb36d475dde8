"""Qwen-VL: images and videos are grids of merged patches between wrapper tokens, their positions M-RoPE.

Positions are computed here and never taken from the model's `get_rope_index`: in this version of Transformers
that one lets the text behind a long video start among the video's own positions. Here text resumes one past
the largest position, as in the code that the models were released with (and as this version does it for the
Omni models); where the two agree the tests compare them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality
from kamera.engines.hf.video_processor import VideoProcessor
from kamera.positions import Grid, PositionLayout, media_layout

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class GridImage(Modality):
    """A still image of `image_grid_thw` patches, `spatial_merge_size`² of them to a token."""

    def merged_grid(self, inputs: Inputs, config: Any) -> tuple[int, int, int]:
        """Steps, rows and columns of the tokens that the language model sees."""
        steps, height, width = inputs[f"{self.kind}_grid_thw"][0].tolist()
        merge = config.vision_config.spatial_merge_size
        return steps, height // merge, width // merge

    def grids(self, inputs: Inputs, config: Any) -> list[Grid]:
        """The runs of placeholders in the item's tokens."""
        _, height, width = self.merged_grid(inputs, config)
        return [Grid((0,), height, width)]

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        return sum(grid.num_tokens for grid in self.grids(inputs, config))

    def layout(self, token_ids: tuple[int, ...], inputs: Inputs, config: Any) -> PositionLayout:
        placeholder = self.token_id(config)
        return media_layout([i == placeholder for i in token_ids], self.grids(inputs, config))


@dataclass(frozen=True, kw_only=True)
class GridVideo(GridImage):
    """Frames in one run, a temporal patch of them to a step of the t axis (Qwen2-VL).

    Attributes:
        processor: the settings that the family's class has before a checkpoint's file changes them.
    """

    processor: VideoProcessor

    def grids(self, inputs: Inputs, config: Any) -> list[Grid]:
        steps, height, width = self.merged_grid(inputs, config)
        at = self.steps(steps, inputs["second_per_grid"][0], config)
        return [Grid(tuple(at), height, width)]

    def steps(self, num_steps: int, seconds: Tensor, config: Any) -> list[int]:
        """Where each temporal patch of `seconds` (a float32 scalar) stands on the t axis."""
        return list(range(num_steps))


class TimedVideo(GridVideo):
    """Steps of the t axis are time, cut off to whole positions (Qwen2.5-VL)."""

    def steps(self, num_steps: int, seconds: Tensor, config: Any) -> list[int]:
        interval = config.vision_config.tokens_per_second * seconds
        return [int(step) for step in torch.arange(num_steps) * interval]


class StampedVideo(GridVideo):
    """Each temporal patch is a run of its own behind its time as text (Qwen3-VL)."""

    def grids(self, inputs: Inputs, config: Any) -> list[Grid]:
        steps, height, width = self.merged_grid(inputs, config)
        return [Grid((0,), height, width)] * steps

    def expand(self, inputs: Inputs, config: Any, processor: Any) -> str:
        patch = processor.temporal_patch_size
        seconds = inputs["frame_seconds"].tolist()
        seconds += seconds[-1:] * (-len(seconds) % patch)
        middles = [
            (seconds[at] + seconds[at + patch - 1]) / 2 for at in range(0, len(seconds), patch)
        ]
        run = self.token * self.grids(inputs, config)[0].num_tokens
        pieces = [f"<{at:.1f} seconds><|vision_start|>{run}<|vision_end|>" for at in middles]
        return self.marker.replace(self.token, "".join(pieces))


IMAGE = GridImage(
    kind="image",
    marker="<|vision_start|><|image_pad|><|vision_end|>",
    token="<|image_pad|>",
    inputs=("pixel_values", "image_grid_thw"),
)

QWEN2_FRAMES = VideoProcessor(
    shortest_edge=128 * 28 * 28,
    longest_edge=768 * 28 * 28,
    budget="frame",
    patch_size=14,
    mean=CLIP_MEAN,
    std=CLIP_STD,
    max_video_tokens=128000,
    takes_pixel_bounds=True,
)

QWEN3_FRAMES = VideoProcessor(
    shortest_edge=128 * 32 * 32,
    longest_edge=768 * 32 * 32,
    budget="clip",
    patch_size=16,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
)


def _videos(modality: type[GridVideo], processor: VideoProcessor) -> GridVideo:
    return modality(
        kind="video",
        marker="<|vision_start|><|video_pad|><|vision_end|>",
        token="<|video_pad|>",
        inputs=("pixel_values_videos", "video_grid_thw"),
        processor=processor,
    )


QWEN2 = (IMAGE, _videos(GridVideo, QWEN2_FRAMES))
QWEN2_5 = (IMAGE, _videos(TimedVideo, QWEN2_FRAMES))
QWEN3 = (IMAGE, _videos(StampedVideo, QWEN3_FRAMES))

FAMILIES = (
    Family("qwen2_vl", "Qwen2VLForConditionalGeneration", QWEN2),
    Family("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", QWEN2_5),
    Family("qwen3_vl", "Qwen3VLForConditionalGeneration", QWEN3),
    Family("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", QWEN3),
)
