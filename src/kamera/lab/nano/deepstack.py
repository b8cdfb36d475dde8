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

DEEPSTACK_LAYERS = (1, 2)
"""The vision layers whose features are added after language layers 0 and 1."""


def build_config(tokenizer: Any) -> Any:
    """The family's own configuration at nano size; patches of 14 px give frames nano-gqa's tokens."""
    from transformers import Qwen3VLConfig

    interleaved = rope(6, 5, 5, mrope_interleaved=True)
    return Qwen3VLConfig(
        text_config=text_config(tokenizer, head_dim=32, rope_parameters=interleaved),
        vision_config={
            **TOWER,
            "intermediate_size": 384,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": list(DEEPSTACK_LAYERS),
        },
        **whole_config(tokenizer),
    )


def build(folder: Path, *, seed: int = 0) -> tuple[Any, Any]:
    """An untrained model and its tokenizer; all but the weights is saved into `folder`."""
    from transformers import Qwen3VLForConditionalGeneration

    tokenizer = build_tokenizer(folder)
    save_processor(
        folder,
        "Qwen3VLVideoProcessor",
        size={"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS},
        image_mean=list(HALF_MEAN),
        image_std=list(HALF_STD),
        processor_class="Qwen3VLProcessor",
    )
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
