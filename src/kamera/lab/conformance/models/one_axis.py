"""Vision models with one position axis: Kimi (MLA), DeepSeek-VL (MHA), InternVL, LLaVA, Idefics3, Gemma3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from torch import Tensor

from kamera.lab.conformance.case import Case
from kamera.lab.conformance.models.grids import PATCH, flat_image, noise
from kamera.lab.conformance.models.text import (
    DEFAULT,
    EXPERTS,
    LINEAR,
    LLAMA3,
    MLA,
    text_config,
)
from kamera.lab.conformance.vocabulary import Vocabulary

SIDE = 3 * PATCH
"""Pixels on an image's side: 3 x 3 patches."""
TILE_SIDE = 4 * PATCH
"""Of a tile, where a family cuts an image into several: 2 x 2 merged patches."""
SOFT_SIDE = 8 * PATCH
"""Of Gemma3's: 4 x 4 pooled patches, more than its layers' sliding windows."""
FINE_SIDE = 64
"""Of the same image for a second tower."""
PINPOINTS = [
    [rows * SIDE, columns * SIDE]
    for rows, columns in ((1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (4, 4))
]
"""Heights and widths to which LLaVA-OneVision brings an image."""
TOWER: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "patch_size": PATCH,
    "image_size": SIDE,
}


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
    size = ([70, 39], [39, 70])[seed % 2]
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


def kimi(vocabulary: Vocabulary) -> Any:
    return transformers.Kimi_K25Config(
        text_config=text_config(vocabulary, DEFAULT, model_type="deepseek_v3", **MLA, **EXPERTS),
        vision_config={
            **{name: value for name, value in TOWER.items() if name != "image_size"},
            "pos_emb_height": 8,
            "pos_emb_width": 8,
        },
        projection_hidden_size=32,
        image_token_id=vocabulary.token_id("<|media_pad|>"),
        video_token_id=vocabulary.token_id("<|kimi_k25_video_placeholder|>"),
        vision_start_token_id=vocabulary.token_id("<|media_begin|>"),
        vision_end_token_id=vocabulary.token_id("<|media_end|>"),
        tie_word_embeddings=False,
    )


def deepseek_vl(vocabulary: Vocabulary) -> Any:
    return transformers.DeepseekVLConfig(
        text_config=text_config(vocabulary, DEFAULT, model_type="llama", num_key_value_heads=4),
        vision_config={**TOWER, "model_type": "siglip_vision_model"},
        image_token_id=vocabulary.token_id("<image_placeholder>"),
        tie_word_embeddings=False,
    )


def deepseek_vl_hybrid(vocabulary: Vocabulary) -> Any:
    return transformers.DeepseekVLHybridConfig(
        text_config=text_config(vocabulary, LINEAR, model_type="llama", num_key_value_heads=4),
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
        image_token_id=vocabulary.token_id("<image_placeholder>"),
        tie_word_embeddings=False,
    )


def internvl(vocabulary: Vocabulary) -> Any:
    return transformers.InternVLConfig(
        text_config=text_config(vocabulary, DEFAULT, model_type="qwen2"),
        vision_config={**TOWER, "model_type": "internvl_vision", "image_size": [TILE_SIDE] * 2},
        image_seq_length=4,
        image_token_id=vocabulary.token_id("<IMG_CONTEXT>"),
        tie_word_embeddings=False,
    )


def llava(vocabulary: Vocabulary) -> Any:
    return transformers.LlavaConfig(
        text_config=text_config(vocabulary, LLAMA3, model_type="llama"),
        vision_config={**TOWER, "model_type": "clip_vision_model"},
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        image_token_id=vocabulary.token_id("<image>"),
    )


def llava_qwen(vocabulary: Vocabulary) -> Any:
    return transformers.LlavaConfig(
        text_config=text_config(vocabulary, DEFAULT, model_type="qwen2"),
        vision_config={**TOWER, "model_type": "siglip_vision_model"},
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        image_token_id=vocabulary.token_id("<image>"),
    )


def llava_onevision(vocabulary: Vocabulary) -> Any:
    return transformers.LlavaOnevisionConfig(
        text_config=text_config(vocabulary, DEFAULT, model_type="qwen2"),
        vision_config={**TOWER, "model_type": "siglip_vision_model"},
        image_grid_pinpoints=PINPOINTS,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        image_token_id=vocabulary.token_id("<image>"),
        video_token_id=vocabulary.token_id("<video>"),
    )


def idefics3(vocabulary: Vocabulary) -> Any:
    return transformers.Idefics3Config(**_split(vocabulary))


def smolvlm(vocabulary: Vocabulary) -> Any:
    return transformers.SmolVLMConfig(**_split(vocabulary))


def _split(vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "text_config": text_config(vocabulary, DEFAULT, model_type="llama"),
        "vision_config": {**TOWER, "image_size": TILE_SIDE},
        "scale_factor": 2,
        "image_token_id": vocabulary.token_id("<image>"),
    }


def gemma3(vocabulary: Vocabulary) -> Any:
    return transformers.Gemma3Config(
        text_config=text_config(
            vocabulary,
            {
                "sliding_attention": dict(DEFAULT),
                "full_attention": {**LINEAR, "rope_theta": 1e6},
            },
            head_dim=16,
            num_hidden_layers=4,
            layer_types=["sliding_attention", "full_attention"] * 2,
            sliding_window=8,
            query_pre_attn_scalar=16,
        ),
        vision_config={**TOWER, "image_size": SOFT_SIDE},
        mm_tokens_per_image=16,
        boi_token_index=vocabulary.token_id("<start_of_image>"),
        eoi_token_index=vocabulary.token_id("<end_of_image>"),
        image_token_id=vocabulary.token_id("<image_soft_token>"),
        tie_word_embeddings=False,
    )


CASES = (
    Case("kimi_k25", "", kimi, {"image": flat_image}),
    Case("deepseek_vl", "MHA", deepseek_vl, {"image": square}),
    Case("deepseek_vl_hybrid", "MHA", deepseek_vl_hybrid, {"image": twice}),
    Case("internvl", "", internvl, {"image": tiles}),
    Case("llava", "", llava, {"image": square}),
    Case("llava", "Qwen2", llava_qwen, {"image": square}),
    Case("llava_onevision", "", llava_onevision, {"image": anyres}),
    Case("idefics3", "", idefics3, {"image": parts}, join=1),
    Case("smolvlm", "", smolvlm, {"image": parts}, join=1),
    Case("gemma3", "sliding", gemma3, {"image": soft}),
)
