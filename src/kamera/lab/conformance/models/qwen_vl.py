"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL and its mixture of experts: M-RoPE, deepstack from the third on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from torch import Tensor

from kamera.lab.conformance.case import Case
from kamera.lab.conformance.models.text import DEFAULT, SIZES, YARN
from kamera.lab.conformance.vocabulary import token_id

PATCH = 4
GRIDS = ((4, 6), (6, 4))
"""Rows and columns of patches by seed: 2 x 3 and 3 x 2 merged tokens, so that no two axes run alike."""

IDS = {
    "image_token_id": token_id("<|image_pad|>"),
    "video_token_id": token_id("<|video_pad|>"),
    "vision_start_token_id": token_id("<|vision_start|>"),
    "vision_end_token_id": token_id("<|vision_end|>"),
}
TOWER: dict[str, Any] = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 2,
    "patch_size": PATCH,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
TOWERS: dict[str, dict[str, Any]] = {
    "qwen2_vl": {
        **{name: value for name, value in TOWER.items() if name != "intermediate_size"},
        "embed_dim": 32,
        "hidden_size": 64,
        "mlp_ratio": 1,
    },
    "qwen2_5_vl": {
        **TOWER,
        "out_hidden_size": 64,
        "fullatt_block_indexes": [1],
        "window_size": 16,
        "tokens_per_second": 2,
    },
}
DEEPSTACK: dict[str, Any] = {
    **TOWER,
    "depth": 3,
    "out_hidden_size": 64,
    "deepstack_visual_indexes": [0, 1, 2],
    "num_position_embeddings": 64,
}
SECTIONED = {**DEFAULT, "mrope_section": [2, 3, 3]}
INTERLEAVED = {**DEFAULT, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
MOE: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 1,
}


def patches(seed: int, frames: int, rows: int, columns: int) -> Tensor:
    """[frames · rows · columns, 3 · 2 · 4 · 4] random patches."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(frames * rows * columns, 3 * 2 * PATCH * PATCH, generator=generator)


def image(config: Any, seed: int) -> Mapping[str, Tensor]:
    """A still image."""
    rows, columns = GRIDS[seed % 2]
    grid = torch.tensor([[1, rows, columns]])
    return {"pixel_values": patches(seed, 1, rows, columns), "image_grid_thw": grid}


def vision_language(
    model_type: str,
    config: str,
    parameters: dict[str, Any],
    tower: dict[str, Any],
    seed: int = 0,
    **extra: Any,
) -> Case:
    """A model with one tower for images and videos."""

    def make() -> Any:
        text = {**SIZES, **extra, "rope_parameters": dict(parameters)}
        made = getattr(transformers, config)(text_config=text, vision_config=dict(tower), **IDS)
        return made

    return Case(model_type, "", make, {"image": image}, seed)


CASES = (
    vision_language("qwen2_vl", "Qwen2VLConfig", SECTIONED, TOWERS["qwen2_vl"]),
    vision_language("qwen2_5_vl", "Qwen2_5_VLConfig", SECTIONED, TOWERS["qwen2_5_vl"]),
    vision_language(
        "qwen2_5_vl",
        "Qwen2_5_VLConfig",
        {**YARN, "mrope_section": [2, 3, 3]},
        TOWERS["qwen2_5_vl"],
    ),
    vision_language(
        "qwen3_vl",
        "Qwen3VLConfig",
        INTERLEAVED,
        DEEPSTACK,
        head_dim=16,
        num_hidden_layers=4,
    ),
    vision_language(
        "qwen3_vl_moe",
        "Qwen3VLMoeConfig",
        INTERLEAVED,
        DEEPSTACK,
        head_dim=16,
        num_hidden_layers=4,
        **MOE,
    ),
)
