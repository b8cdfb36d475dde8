"""nano-gqa: a Qwen2.5-VL checkpoint of about 2 M parameters (8 layers, 4 query and 2 KV heads of 32)."""

from pathlib import Path
from typing import Any

from torch import Tensor

from kamera.lab.nano.family import (
    CLIP_MEAN,
    CLIP_STD,
    QWEN_CHAT,
    Family,
    merged_patches,
    normalized,
    save_files,
)
from kamera.lab.nano.tokenizer import build_tokenizer

HIDDEN = 128
NUM_LAYERS = 8
VISION_HIDDEN = 96
MAX_PIXELS = 256 * 28 * 28
MIN_PIXELS = 4 * 28 * 28


def build_config(tokenizer: Any) -> Any:
    """The family's own configuration at nano size; RoPE base 10⁶ and sectioned M-RoPE as in the family."""
    from transformers import Qwen2_5_VLConfig

    ids = tokenizer.convert_tokens_to_ids
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 512,
            "hidden_size": HIDDEN,
            "intermediate_size": 384,
            "num_hidden_layers": NUM_LAYERS,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1_000_000.0,
                "mrope_section": [4, 6, 6],
            },
            "bos_token_id": ids("<|endoftext|>"),
            "eos_token_id": ids("<|im_end|>"),
            "pad_token_id": ids("<|endoftext|>"),
        },
        vision_config={
            "depth": 3,
            "hidden_size": VISION_HIDDEN,
            "intermediate_size": 256,
            "num_heads": 3,
            "out_hidden_size": HIDDEN,
            "fullatt_block_indexes": [0, 1, 2],
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 112,
            "tokens_per_second": 2,
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
    "min_pixels": MIN_PIXELS,
    "max_pixels": MAX_PIXELS,
    "image_mean": list(CLIP_MEAN),
    "image_std": list(CLIP_STD),
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "processor_class": "Qwen2_5_VLProcessor",
}


def save_processor(folder: Path) -> None:
    """The family's processor files: images are resized to at most 256 merged tokens.

    Written as data: the processor class itself needs torchvision (for video), its files don't.
    """
    files = {
        "preprocessor_config.json": {**PROCESSOR, "image_processor_type": "Qwen2VLImageProcessor"},
        "video_preprocessor_config.json": {
            **PROCESSOR,
            "video_processor_type": "Qwen2VLVideoProcessor",
        },
    }
    save_files(folder, files)


def build(folder: Path, *, seed: int = 0) -> tuple[Any, Any]:
    """An untrained model and its tokenizer; all but the weights is saved into `folder`."""
    import torch
    from transformers import Qwen2_5_VLForConditionalGeneration

    tokenizer = build_tokenizer(folder)
    save_processor(folder)
    torch.manual_seed(seed)
    return Qwen2_5_VLForConditionalGeneration(build_config(tokenizer)), tokenizer


def vision_inputs(images: Tensor) -> dict[str, Tensor]:
    """Merged patches, at CLIP's mean and deviation."""
    return merged_patches(normalized(images, CLIP_MEAN, CLIP_STD))


FAMILY = Family(
    "gqa",
    build,
    vision_inputs,
    tower=("visual",),
    chat=QWEN_CHAT,
    mrope=True,
    last=("visual.merger.mlp.2",),
)
