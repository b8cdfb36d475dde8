"""nano-deepstack: a Qwen3-VL checkpoint (interleaved M-RoPE, q/k norm, deepstack into two layers)."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kamera.lab.nano.family import (
    HALF_MEAN,
    HALF_STD,
    QWEN_CHAT,
    Family,
    merged_patches,
    normalized,
    save_files,
)
from kamera.lab.nano.tokenizer import build_tokenizer

DEEPSTACK_LAYERS = (1, 2)
"""The vision layers whose features are added after language layers 0 and 1."""


def build_config(tokenizer: Any) -> Any:
    """The family's own configuration at nano size; patches of 14 px give frames nano-gqa's tokens."""
    from transformers import Qwen3VLConfig

    ids = tokenizer.convert_tokens_to_ids
    return Qwen3VLConfig(
        text_config={
            "vocab_size": 512,
            "hidden_size": 128,
            "intermediate_size": 384,
            "num_hidden_layers": 8,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1_000_000.0,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
            "bos_token_id": ids("<|endoftext|>"),
            "eos_token_id": ids("<|im_end|>"),
            "pad_token_id": ids("<|endoftext|>"),
        },
        vision_config={
            "depth": 3,
            "hidden_size": 96,
            "intermediate_size": 384,
            "num_heads": 3,
            "out_hidden_size": 128,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": list(DEEPSTACK_LAYERS),
        },
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
        tie_word_embeddings=False,
        dtype="float32",
    )


PROCESSOR = {
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "size": {"shortest_edge": 4 * 28 * 28, "longest_edge": 256 * 28 * 28},
    "image_mean": list(HALF_MEAN),
    "image_std": list(HALF_STD),
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "processor_class": "Qwen3VLProcessor",
}


def build(folder: Path, *, seed: int = 0) -> tuple[Any, Any]:
    """An untrained model and its tokenizer; all but the weights is saved into `folder`."""
    from transformers import Qwen3VLForConditionalGeneration

    tokenizer = build_tokenizer(folder)
    images = {**PROCESSOR, "image_processor_type": "Qwen2VLImageProcessor"}
    videos = {**PROCESSOR, "video_processor_type": "Qwen3VLVideoProcessor"}
    files = {"preprocessor_config.json": images, "video_preprocessor_config.json": videos}
    save_files(folder, files)
    torch.manual_seed(seed)
    return Qwen3VLForConditionalGeneration(build_config(tokenizer)), tokenizer


def vision_inputs(images: Tensor) -> dict[str, Tensor]:
    """Merged patches, at half mean and deviation."""
    return merged_patches(normalized(images, HALF_MEAN, HALF_STD))


FAMILY = Family(
    "deepstack",
    build,
    vision_inputs,
    tower=("visual",),
    chat=QWEN_CHAT,
    mrope=True,
    last=(
        "visual.merger.linear_fc2",
        *(f"visual.deepstack_merger_list.{i}.linear_fc2" for i in range(len(DEEPSTACK_LAYERS))),
    ),
)
