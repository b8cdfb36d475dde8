"""Qwen2.5-Omni and Qwen3-Omni thinkers: images, videos and audio into one language model.

A checkpoint of the whole model is served by its thinker: the talker turns finished text into speech and
reads no chunk. Sound inside a video (`use_audio_in_video`) isn't served: its tokens are woven into the
frames' own, so that neither the video nor the sound is a chunk.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kamera.engines.hf.families.qwen_vl import QWEN2_FRAMES, GridImage, GridVideo
from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality
from kamera.errors import ConfigError
from kamera.positions import PositionLayout, text_layout


class OmniVideo(GridVideo):
    """Steps of the t axis are time, cut off to whole positions (Qwen2.5-Omni)."""

    def steps(self, num_steps: int, seconds: Tensor, config: Any) -> list[int]:
        return [int(step) for step in _omni_steps(num_steps, seconds, config)]


class WholeStepVideo(GridVideo):
    """Steps of the t axis are time and aren't cut off: only rates that give whole positions are served.

    Qwen3-Omni places other videos, and all text behind them, at fractions of a position.
    """

    def steps(self, num_steps: int, seconds: Tensor, config: Any) -> list[int]:
        steps = _omni_steps(num_steps, seconds, config)
        if not steps.equal(steps.round()):
            raise ConfigError(
                f"A video of {float(seconds):.4g} s a temporal patch stands at fractions of a position "
                f"({steps[:4].tolist()} …), which isn't served: expected a rate at which a temporal "
                f"patch is a multiple of 1/{config.position_id_per_seconds:g} s (at 1 or 2 frames per second)"
            )
        return [int(step) for step in steps.tolist()]


def _omni_steps(num_steps: int, seconds: Tensor, config: Any) -> Tensor:
    steps: Tensor = torch.arange(num_steps) * seconds.float() * config.position_id_per_seconds
    return steps


class OmniAudio(Modality):
    """A clip whose tokens count one by one, the same on every axis."""

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        length = int(inputs["feature_attention_mask"].sum())
        return ((length - 1) // 2 - 1) // 2 + 1

    def expand(self, inputs: Inputs, config: Any, processor: Any) -> str:
        if self.num_placeholders(inputs, config, processor) < 1:
            raise ConfigError(
                "Audio too short to make a token: expected a few hundredths of a second at least"
            )
        return super().expand(inputs, config, processor)

    def layout(self, token_ids: tuple[int, ...], inputs: Inputs, config: Any) -> PositionLayout:
        return text_layout(len(token_ids), 3)

    def embed(self, model: Any, inputs: Inputs) -> Tensor:
        """As for vision. Deepstack levels, which sound has none of, are zero: the model adds them."""
        features = super().embed(model, inputs)
        levels = len(getattr(model.config.vision_config, "deepstack_visual_indexes", None) or ())
        return torch.nn.functional.pad(features, (0, levels * features.shape[-1]))


@dataclass(frozen=True)
class WindowedAudio(OmniAudio):
    """Convolved window by window: 13 tokens to a full window of 100 frames (Qwen3-Omni)."""

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        length = int(inputs["feature_attention_mask"].sum())
        windows, left = divmod(length, 2 * int(config.audio_config.n_window))
        return 13 * windows + (((left - 1) // 2) // 2) // 2 + 1


_PIXELS = ("pixel_values", "image_grid_thw")
_FRAMES = ("pixel_values_videos", "video_grid_thw")
_FEATURES = ("input_features", "feature_attention_mask")

QWEN2_5 = (
    GridImage("image", "<|vision_bos|><|IMAGE|><|vision_eos|>", "<|IMAGE|>", _PIXELS),
    OmniVideo(
        kind="video",
        marker="<|vision_bos|><|VIDEO|><|vision_eos|>",
        token="<|VIDEO|>",
        inputs=_FRAMES,
        processor=dataclasses.replace(QWEN2_FRAMES, always=(128 * 28 * 28, 768 * 28 * 28)),
    ),
    OmniAudio(
        "audio",
        "<|audio_bos|><|AUDIO|><|audio_eos|>",
        "<|AUDIO|>",
        _FEATURES,
        {"padding": "max_length"},
    ),
)

QWEN3 = (
    GridImage("image", "<|vision_start|><|image_pad|><|vision_end|>", "<|image_pad|>", _PIXELS),
    WholeStepVideo(
        kind="video",
        marker="<|vision_start|><|video_pad|><|vision_end|>",
        token="<|video_pad|>",
        inputs=_FRAMES,
        processor=dataclasses.replace(QWEN2_FRAMES, always=(128 * 32 * 32, 768 * 32 * 32)),
    ),
    WindowedAudio(
        "audio",
        "<|audio_start|><|audio_pad|><|audio_end|>",
        "<|audio_pad|>",
        _FEATURES,
        {"padding": True, "truncation": False},
    ),
)

FAMILIES = (
    Family("qwen2_5_omni", "Qwen2_5OmniThinkerForConditionalGeneration", QWEN2_5),
    Family("qwen2_5_omni_thinker", "Qwen2_5OmniThinkerForConditionalGeneration", QWEN2_5),
    Family("qwen3_omni_moe", "Qwen3OmniMoeThinkerForConditionalGeneration", QWEN3),
    Family("qwen3_omni_moe_thinker", "Qwen3OmniMoeThinkerForConditionalGeneration", QWEN3),
)
