"""Vision models with one position axis: Kimi (MLA), DeepSeek-VL (MHA), InternVL, LLaVA, Idefics3, Gemma3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from torch import Tensor

from kamera.lab.conformance.case import Case
from kamera.lab.conformance.models.grids import PATCH, flat_image, noise
from kamera.lab.conformance.models.text import DEFAULT, EXPERTS, LINEAR, LLAMA3, MLA, SIZES
from kamera.lab.conformance.vocabulary import token_id

TOWER: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "patch_size": PATCH,
    "image_size": 12,
}
SIDE = 12
"""Pixels on an image's side: 3 x 3 patches."""
FINE_SIDE = 64
"""Of the same image for a second tower."""


def text_of(model_type: str, parameters: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """The language model inside."""
    return {**SIZES, **extra, "model_type": model_type, "rope_parameters": dict(parameters)}


def square(config: Any, seed: int) -> Mapping[str, Tensor]:
    """One image of a fixed size."""
    return {"pixel_values": noise(seed, 1, 3, SIDE, SIDE)}


def twice(config: Any, seed: int) -> Mapping[str, Tensor]:
    """One image at two resolutions."""
    fine = noise(seed, 1, 3, FINE_SIDE, FINE_SIDE)
    return {**square(config, seed), "high_res_pixel_values": fine}


def tiles(config: Any, seed: int) -> Mapping[str, Tensor]:
    """InternVL: two tiles and their thumbnail; one tile alone."""
    side = config.vision_config.image_size[0]
    return {"pixel_values": noise(seed, (3, 1)[seed % 2], 3, side, side)}


def anyres(config: Any, seed: int) -> Mapping[str, Tensor]:
    """LLaVA-OneVision: an overview and two tiles, of an image that doesn't fill them."""
    size = ([20, 11], [11, 20])[seed % 2]
    return {
        "pixel_values": noise(seed, 1, 3, 3, SIDE, SIDE),
        "image_sizes": torch.tensor([size]),
    }


def parts(config: Any, seed: int) -> Mapping[str, Tensor]:
    """Idefics3: a row of two sub-images, then the whole."""
    side = config.vision_config.image_size
    return {
        "pixel_values": noise(seed, 1, 3, 3, side, side),
        "rows": torch.tensor([[1]]),
        "cols": torch.tensor([[2]]),
    }


def soft(config: Any, seed: int) -> Mapping[str, Tensor]:
    """Gemma3: an image of the tower's size."""
    side = config.vision_config.image_size
    return {"pixel_values": noise(seed, 1, 3, side, side)}


def kimi() -> Any:
    return transformers.Kimi_K25Config(
        text_config=text_of("deepseek_v3", DEFAULT, **MLA, **EXPERTS),
        vision_config={
            **{name: value for name, value in TOWER.items() if name != "image_size"},
            "pos_emb_height": 8,
            "pos_emb_width": 8,
        },
        projection_hidden_size=32,
        image_token_id=token_id("<|media_pad|>"),
        video_token_id=token_id("<|kimi_k25_video_placeholder|>"),
        vision_start_token_id=token_id("<|media_begin|>"),
        vision_end_token_id=token_id("<|media_end|>"),
        tie_word_embeddings=False,
    )


def deepseek_vl() -> Any:
    return transformers.DeepseekVLConfig(
        text_config=text_of("llama", DEFAULT, num_key_value_heads=4),
        vision_config={**TOWER, "model_type": "siglip_vision_model"},
        image_token_id=token_id("<image_placeholder>"),
    )


def deepseek_vl_hybrid() -> Any:
    return transformers.DeepseekVLHybridConfig(
        text_config=text_of("llama", LINEAR, num_key_value_heads=4),
        vision_config={**TOWER, "model_type": "siglip_vision_model"},
        high_res_vision_config={
            "model_type": "sam_vision_model",
            "hidden_size": 32,
            "output_channels": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": FINE_SIDE,
            "patch_size": 16,
            "window_size": 2,
            "global_attn_indexes": [1],
            "mlp_dim": 64,
        },
        image_token_id=token_id("<image_placeholder>"),
    )


def internvl() -> Any:
    return transformers.InternVLConfig(
        text_config=text_of("qwen2", DEFAULT),
        vision_config={**TOWER, "model_type": "internvl_vision", "image_size": [16, 16]},
        image_seq_length=4,
        image_token_id=token_id("<IMG_CONTEXT>"),
    )


def llava() -> Any:
    return transformers.LlavaConfig(
        text_config=text_of("llama", LLAMA3),
        vision_config={**TOWER, "model_type": "clip_vision_model"},
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        image_token_id=token_id("<image>"),
    )


def llava_onevision() -> Any:
    return transformers.LlavaOnevisionConfig(
        text_config=text_of("qwen2", DEFAULT),
        vision_config={**TOWER, "model_type": "siglip_vision_model"},
        image_grid_pinpoints=[[12, 12], [12, 24], [24, 12], [24, 24]],
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        image_token_id=token_id("<image>"),
        video_token_id=token_id("<video>"),
    )


def idefics3() -> Any:
    return transformers.Idefics3Config(**_split())


def smolvlm() -> Any:
    return transformers.SmolVLMConfig(**_split())


def _split() -> dict[str, Any]:
    return {
        "text_config": text_of("llama", DEFAULT),
        "vision_config": {**TOWER, "image_size": 16},
        "scale_factor": 2,
        "image_token_id": token_id("<image>"),
    }


def gemma3() -> Any:
    return transformers.Gemma3Config(
        text_config={
            **SIZES,
            "head_dim": 16,
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "sliding_window": 8,
            "query_pre_attn_scalar": 16,
            "rope_parameters": {
                "sliding_attention": dict(DEFAULT),
                "full_attention": {**LINEAR, "rope_theta": 1e6},
            },
        },
        vision_config={**TOWER, "image_size": 16},
        mm_tokens_per_image=4,
        boi_token_index=token_id("<start_of_image>"),
        eoi_token_index=token_id("<end_of_image>"),
        image_token_id=token_id("<image_soft_token>"),
    )


CASES = (
    Case("kimi_k25", "", kimi, {"image": flat_image}),
    Case("deepseek_vl", "MHA", deepseek_vl, {"image": square}),
    Case("deepseek_vl_hybrid", "MHA", deepseek_vl_hybrid, {"image": twice}),
    Case("internvl", "", internvl, {"image": tiles}),
    Case("llava", "", llava, {"image": square}),
    Case("llava_onevision", "", llava_onevision, {"image": anyres}),
    Case("idefics3", "", idefics3, {"image": parts}, join=1),
    Case("smolvlm", "", smolvlm, {"image": parts}, join=1),
    Case("gemma3", "sliding", gemma3, {"image": soft}),
)
