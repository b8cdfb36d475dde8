"""The other M-RoPE families: the Omni thinkers with audio, GLM-4V over half of a head, PaddleOCR-VL."""

from __future__ import annotations

from typing import Any

import transformers

from kamera.lab.conformance.case import Case
from kamera.lab.conformance.models.grids import (
    NUM_MELS,
    PATCH,
    audio,
    flat_image,
    image,
    long_video,
    odd_video,
    video,
)
from kamera.lab.conformance.models.qwen_vl import (
    DEEP_TEXT,
    DEEP_TOWER,
    EXPERTS,
    INTERLEAVED,
    SECTIONED,
    TOWER,
    WINDOWED_TOWER,
    vision_ids,
)
from kamera.lab.conformance.models.text import DEFAULT, text_config
from kamera.lab.conformance.models.text import EXPERTS as DEEPSEEK_EXPERTS
from kamera.lab.conformance.vocabulary import Vocabulary

EARS: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "output_dim": 64,
    "num_mel_bins": NUM_MELS,
}
HALF = {**DEFAULT, "mrope_section": [1, 2, 1], "partial_rotary_factor": 0.5}
GLM_TOWER: dict[str, Any] = {**TOWER, "out_hidden_size": 64, "image_size": 8 * PATCH}


def qwen2_5_omni(vocabulary: Vocabulary) -> Any:
    return transformers.Qwen2_5OmniThinkerConfig(
        text_config=text_config(vocabulary, SECTIONED),
        vision_config=dict(WINDOWED_TOWER),
        audio_config={**EARS, "n_window": 10},
        image_token_index=vocabulary.token_id("<|IMAGE|>"),
        video_token_index=vocabulary.token_id("<|VIDEO|>"),
        audio_token_index=vocabulary.token_id("<|AUDIO|>"),
        vision_start_token_id=vocabulary.token_id("<|vision_bos|>"),
        vision_end_token_id=vocabulary.token_id("<|vision_eos|>"),
        audio_start_token_id=vocabulary.token_id("<|audio_bos|>"),
        audio_end_token_id=vocabulary.token_id("<|audio_eos|>"),
        position_id_per_seconds=2,
    )


def qwen3_omni(vocabulary: Vocabulary) -> Any:
    return transformers.models.qwen3_omni_moe.Qwen3OmniMoeThinkerConfig(
        text_config=text_config(vocabulary, INTERLEAVED, **DEEP_TEXT, **EXPERTS),
        vision_config=dict(DEEP_TOWER),
        audio_config={**EARS, "n_window": 50, "n_window_infer": 200, "downsample_hidden_size": 8},
        audio_token_id=vocabulary.token_id("<|audio_pad|>"),
        audio_start_token_id=vocabulary.token_id("<|audio_start|>"),
        audio_end_token_id=vocabulary.token_id("<|audio_end|>"),
        position_id_per_seconds=2,
        **vision_ids(vocabulary),
    )


def glm4v(vocabulary: Vocabulary) -> Any:
    return transformers.Glm4vConfig(
        text_config=text_config(vocabulary, HALF),
        vision_config=dict(GLM_TOWER),
        **glm_ids(vocabulary),
    )


def glm4v_moe(vocabulary: Vocabulary) -> Any:
    experts = {name: value for name, value in DEEPSEEK_EXPERTS.items() if name != "n_group"}
    return transformers.Glm4vMoeConfig(
        text_config=text_config(vocabulary, HALF, head_dim=16, **experts),
        vision_config=dict(GLM_TOWER),
        **glm_ids(vocabulary),
    )


def paddleocr_vl(vocabulary: Vocabulary) -> Any:
    return transformers.PaddleOCRVLConfig(
        text_config=text_config(vocabulary, SECTIONED, head_dim=16),
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 8 * PATCH,
            "patch_size": PATCH,
        },
        image_token_id=vocabulary.token_id("<|IMAGE_PLACEHOLDER|>"),
        video_token_id=vocabulary.token_id("<|video_pad|>"),
        vision_start_token_id=vocabulary.token_id("<|IMAGE_START|>"),
        vision_end_token_id=vocabulary.token_id("<|IMAGE_END|>"),
        tie_word_embeddings=False,
    )


def glm_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """The ids by which GLM's forward finds images and videos."""
    return {
        "image_token_id": vocabulary.token_id("<|image|>"),
        "video_token_id": vocabulary.token_id("<|video|>"),
        "image_start_token_id": vocabulary.token_id("<|begin_of_image|>"),
        "image_end_token_id": vocabulary.token_id("<|end_of_image|>"),
        "video_start_token_id": vocabulary.token_id("<|begin_of_video|>"),
        "video_end_token_id": vocabulary.token_id("<|end_of_video|>"),
    }


SEEN: dict[str, Any] = {"image": image, "video": video}
ALL: dict[str, Any] = {**SEEN, "audio": audio}

CASES = (
    Case("qwen2_5_omni_thinker", "", qwen2_5_omni, ALL),
    Case("qwen2_5_omni_thinker", "long video", qwen2_5_omni, {"video": odd_video}),
    Case("qwen3_omni_moe_thinker", "", qwen3_omni, ALL),
    Case("qwen3_omni_moe_thinker", "long video", qwen3_omni, {"video": long_video}),
    # Images and videos have one placeholder: the model's own forward can't tell them apart.
    Case("glm4v", "", glm4v, SEEN, mixes=False),
    Case("glm4v_moe", "", glm4v_moe, SEEN, mixes=False),
    Case("paddleocr_vl", "", paddleocr_vl, {"image": flat_image}),
)
