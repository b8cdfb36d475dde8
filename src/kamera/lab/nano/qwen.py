"""What Qwen2.5-VL and Qwen3-VL share at nano size: sizes, token ids, the processor's files."""

from pathlib import Path
from typing import Any

from kamera.lab.nano.family import save_files

HIDDEN = 128
PATCH = 14

SIZES = {
    "vocab_size": 512,
    "hidden_size": HIDDEN,
    "intermediate_size": 384,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
}
"""Of the language model: 4 query and 2 KV heads of 32."""

TOWER = {
    "depth": 3,
    "hidden_size": 96,
    "num_heads": 3,
    "out_hidden_size": HIDDEN,
    "patch_size": PATCH,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
"""Patches of 14 px, four to a token."""

PROCESSOR = {
    "patch_size": PATCH,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
}
MIN_PIXELS, MAX_PIXELS = 4 * (2 * PATCH) ** 2, 256 * (2 * PATCH) ** 2
"""An image has at most 256 merged tokens."""


def rope(*section: int, **more: Any) -> dict[str, Any]:
    """RoPE base 10⁶ as in the families; pairs of t, h and w."""
    return {
        "rope_type": "default", "rope_theta": 1_000_000.0, "mrope_section": list(section), **more,
    }  # fmt: skip


def text_config(tokenizer: Any, **own: Any) -> dict[str, Any]:
    """The language model, with the tokenizer's ids."""
    end, stop = tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])
    return {**SIZES, **own, "bos_token_id": end, "eos_token_id": stop, "pad_token_id": end}


def whole_config(tokenizer: Any) -> dict[str, Any]:
    """What stands beside the language model's and the tower's configs."""
    ids = tokenizer.convert_tokens_to_ids
    return {
        "image_token_id": ids("<|image_pad|>"),
        "video_token_id": ids("<|video_pad|>"),
        "vision_start_token_id": ids("<|vision_start|>"),
        "vision_end_token_id": ids("<|vision_end|>"),
        "tie_word_embeddings": False,
        "dtype": "float32",
    }


def save_processor(folder: Path, video_type: str, **own: Any) -> None:
    """The processor's files, written as data: its class needs torchvision (for video), they don't."""
    images = {**PROCESSOR, **own, "image_processor_type": "Qwen2VLImageProcessor"}
    videos = {**PROCESSOR, **own, "video_processor_type": video_type}
    files = {"preprocessor_config.json": images, "video_preprocessor_config.json": videos}
    save_files(folder, files)
