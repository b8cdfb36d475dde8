"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL, its mixture of experts: M-RoPE, deepstack from the third on."""

from __future__ import annotations

from typing import Any

import transformers

from kamera.lab.conformance.case import Case, MediaInputs
from kamera.lab.conformance.models.grids import PATCH, image, odd_video, video
from kamera.lab.conformance.models.text import DEFAULT, YARN, text_config
from kamera.lab.conformance.vocabulary import Vocabulary

TOWER: dict[str, Any] = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "patch_size": PATCH,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
FIRST_TOWER: dict[str, Any] = {
    "depth": 2,
    "embed_dim": 32,
    "hidden_size": 64,
    "mlp_ratio": 1,
    "num_heads": 2,
    "patch_size": PATCH,
}
WINDOWED_TOWER: dict[str, Any] = {
    **TOWER,
    "out_hidden_size": 64,
    "fullatt_block_indexes": [1],
    "window_size": 4 * PATCH,
    "tokens_per_second": 2,
}
DEEP_TOWER: dict[str, Any] = {
    **TOWER,
    "depth": 3,
    "patch_size": 16,
    "out_hidden_size": 64,
    "deepstack_visual_indexes": [0, 1, 2],
    "num_position_embeddings": 64,
}
"""Three levels: they go into layers 0, 1 and 2, so that the language model has four."""

SECTIONED = {**DEFAULT, "mrope_section": [2, 3, 3]}
INTERLEAVED = {**DEFAULT, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
DEEP_TEXT: dict[str, Any] = {"head_dim": 16, "num_hidden_layers": 4}
EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}


MEDIA: dict[str, MediaInputs] = {"image": image, "video": video}
LONG: dict[str, MediaInputs] = {"video": odd_video}
"""Transformers 5.24 lets the text behind such a video start among the video's own positions."""


def vision_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """The ids by which the forward finds images and videos."""
    return {
        "image_token_id": vocabulary.token_id("<|image_pad|>"),
        "video_token_id": vocabulary.token_id("<|video_pad|>"),
        "vision_start_token_id": vocabulary.token_id("<|vision_start|>"),
        "vision_end_token_id": vocabulary.token_id("<|vision_end|>"),
    }


def vision_language(
    model_type: str,
    config: str,
    parameters: dict[str, Any],
    tower: dict[str, Any],
    *,
    long: bool = False,
    **extra: Any,
) -> Case:
    """A model with one tower for images and videos."""

    def make(vocabulary: Vocabulary) -> Any:
        return getattr(transformers, config)(
            text_config=text_config(vocabulary, parameters, **extra),
            vision_config=dict(tower),
            **vision_ids(vocabulary),
        )

    if long:
        return Case(model_type, "long video, positions given", make, LONG, counts=False)
    return Case(model_type, "", make, MEDIA)


CASES = (
    vision_language("qwen2_vl", "Qwen2VLConfig", SECTIONED, FIRST_TOWER),
    vision_language("qwen2_vl", "Qwen2VLConfig", SECTIONED, FIRST_TOWER, long=True),
    vision_language("qwen2_5_vl", "Qwen2_5_VLConfig", SECTIONED, WINDOWED_TOWER),
    vision_language(
        "qwen2_5_vl", "Qwen2_5_VLConfig", {**YARN, "mrope_section": [2, 3, 3]}, WINDOWED_TOWER
    ),
    vision_language("qwen2_5_vl", "Qwen2_5_VLConfig", SECTIONED, WINDOWED_TOWER, long=True),
    vision_language("qwen3_vl", "Qwen3VLConfig", INTERLEAVED, DEEP_TOWER, **DEEP_TEXT),
    vision_language(
        "qwen3_vl_moe", "Qwen3VLMoeConfig", INTERLEAVED, DEEP_TOWER, **DEEP_TEXT, **EXPERTS
    ),
)
