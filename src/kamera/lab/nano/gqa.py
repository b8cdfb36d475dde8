"""nano-gqa: a Qwen2.5-VL checkpoint of about 2 M parameters (8 layers, 4 query and 2 KV heads of 32)."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kamera.lab.nano.family import (
    CLIP_MEAN,
    CLIP_STD,
    QWEN_CHAT,
    Family,
    merged_patches,
    normalized,
)
from kamera.lab.nano.qwen import (
    MAX_PIXELS,
    MIN_PIXELS,
    TOWER,
    rope,
    save_processor,
    text_config,
    whole_config,
)
from kamera.lab.nano.tokenizer import build_tokenizer


def build_config(tokenizer: Any) -> Any:
    """The family's own configuration at nano size; M-RoPE in sections."""
    from transformers import Qwen2_5_VLConfig

    return Qwen2_5_VLConfig(
        text_config=text_config(tokenizer, rope_parameters=rope(4, 6, 6)),
        vision_config={
            **TOWER,
            "intermediate_size": 256,
            "fullatt_block_indexes": [0, 1, 2],
            "window_size": 112,
            "tokens_per_second": 2,
        },
        **whole_config(tokenizer),
    )


def build(folder: Path, *, seed: int = 0) -> tuple[Any, Any]:
    """An untrained model and its tokenizer; all but the weights is saved into `folder`."""
    from transformers import Qwen2_5_VLForConditionalGeneration

    tokenizer = build_tokenizer(folder)
    save_processor(
        folder,
        "Qwen2VLVideoProcessor",
        min_pixels=MIN_PIXELS,
        max_pixels=MAX_PIXELS,
        image_mean=list(CLIP_MEAN),
        image_std=list(CLIP_STD),
        processor_class="Qwen2_5_VLProcessor",
    )
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
