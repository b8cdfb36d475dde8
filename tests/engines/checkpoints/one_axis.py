"""Families with images and one position axis."""

from dataclasses import replace
from typing import Any

from checkpoints.checkpoint import Checkpoint, Files
from checkpoints.templates import GEMMA, KIMI, SMOL, im_turns, plain_turns
from kamera.lab.conformance.models import case_of
from kamera.lab.conformance.models.grids import PATCH
from kamera.lab.conformance.models.one_axis import (
    FINE_SIDE,
    PINPOINTS,
    SIDE,
    SOFT_SIDE,
    TILE_SIDE,
)

TURN = ("<|im_start|>", "<|im_end|>")


def pixels(image_processor: str, **settings: Any) -> Files:
    """The image processor's file; no two channels have one mean or one deviation."""
    common = {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.5, 0.6, 0.7],
        "rescale_factor": 1 / 255,
        "image_processor_type": image_processor,
    }
    return {"preprocessor_config.json": {**common, **settings}}


def square(side: int) -> dict[str, int]:
    """A size."""
    return {"height": side, "width": side}


LLAVA = Checkpoint(
    case_of("llava"),
    template=plain_turns("<image>\\n"),
    tokens=(*TURN, "<image>"),
    files=pixels(
        "CLIPImageProcessor",
        size={"shortest_edge": SIDE},
        crop_size=square(SIDE),
        do_center_crop=True,
    ),
    adds_start=True,
    spaced=True,
    processor="LlavaProcessor",
    settings={
        "patch_size": PATCH,
        "vision_feature_select_strategy": "default",
        "num_additional_image_tokens": 1,
    },
)
LLAVA_QWEN = Checkpoint(
    case_of("llava", "Qwen2"),
    template=im_turns("\\n", image="<image>\\n"),
    tokens=(*TURN, "<image>"),
    files=pixels("SiglipImageProcessor", size=square(SIDE)),
    processor="LlavaProcessor",
    settings={"patch_size": PATCH, "vision_feature_select_strategy": "full"},
)
LLAVA_ONEVISION = Checkpoint(
    case_of("llava_onevision"),
    template=im_turns(" ", image="<image>\\n"),
    tokens=(*TURN, "<video>", "<image>"),
    files=pixels("LlavaOnevisionImageProcessor", size=square(SIDE), image_grid_pinpoints=PINPOINTS),
    processor="LlavaOnevisionProcessor",
    settings={"num_image_tokens": 9, "vision_feature_select_strategy": "full"},
)
INTERNVL = Checkpoint(
    case_of("internvl"),
    template=im_turns("\\n", image="<IMG_CONTEXT>\\n"),
    tokens=(*TURN, "<img>", "</img>", "<video>", "<IMG_CONTEXT>"),
    named={
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    },
    files=pixels("GotOcr2ImageProcessor", size=square(TILE_SIDE), min_patches=1, max_patches=6),
    processor="InternVLProcessor",
    settings={"image_seq_length": 4},
)


def parted(image_processor: str) -> Files:
    """Images brought to at most nine sub-images, and the whole."""
    return pixels(
        image_processor,
        size={"longest_edge": 3 * TILE_SIDE},
        max_image_size={"longest_edge": TILE_SIDE},
        do_image_splitting=True,
        do_pad=True,
    )


SMOLVLM = Checkpoint(
    case_of("smolvlm"),
    template=SMOL,
    tokens=(
        "<|im_start|>",
        "<end_of_utterance>",
        "<fake_token_around_image>",
        "<global-img>",
        *(f"<row_{row}_col_{col}>" for row in range(1, 7) for col in range(1, 7)),
        "<image>",
    ),
    files=parted("SmolVLMImageProcessor"),
    processor="SmolVLMProcessor",
    settings={"image_seq_len": 4},
)
IDEFICS3 = replace(
    SMOLVLM,
    case=case_of("idefics3"),
    files=parted("Idefics3ImageProcessor"),
    processor="Idefics3Processor",
)
DEEPSEEK_VL = Checkpoint(
    case_of("deepseek_vl"),
    template=plain_turns("<image_placeholder>"),
    tokens=(*TURN, "<image_placeholder>"),
    named={"image_token": "<image_placeholder>"},
    files=pixels("DeepseekVLImageProcessor", size=square(SIDE), min_size=14),
    adds_start=True,
    processor="DeepseekVLProcessor",
    settings={"num_image_tokens": 9},
)
DEEPSEEK_VL_HYBRID = replace(
    DEEPSEEK_VL,
    case=case_of("deepseek_vl_hybrid"),
    files=pixels(
        "DeepseekVLHybridImageProcessor",
        size=square(SIDE),
        high_res_size=square(FINE_SIDE),
        min_size=14,
    ),
    processor="DeepseekVLHybridProcessor",
)
GEMMA3 = Checkpoint(
    case_of("gemma3"),
    template=GEMMA,
    tokens=(
        "<start_of_turn>",
        "<end_of_turn>",
        "<start_of_image>",
        "<end_of_image>",
        "<image_soft_token>",
    ),
    named={
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    },
    files=pixels("Gemma3ImageProcessor", size=square(SOFT_SIDE), do_pan_and_scan=None),
    adds_start=True,
    past_table=True,
    processor="Gemma3Processor",
    settings={"image_seq_length": 16},
)
KIMI_K25 = Checkpoint(
    case_of("kimi_k25"),
    template=KIMI,
    tokens=(
        "<|im_user|>",
        "<|im_assistant|>",
        "<|im_middle|>",
        "<|im_end|>",
        "<|media_content|>",
        "<|kimi_k25_video_placeholder|>",
        "<|media_begin|>",
        "<|media_end|>",
        "<|media_pad|>",
    ),
    files=pixels(
        "Kimi_K25ImageProcessor",
        patch_size=PATCH,
        merge_size=2,
        max_patches=48,
        size={"max_height": 10, "max_width": 10},
        resample=3,
    ),
    processor="Kimi_K25Processor",
)
IMAGES = {
    "llava": LLAVA,
    "llava-qwen": LLAVA_QWEN,
    "llava_onevision": LLAVA_ONEVISION,
    "internvl": INTERNVL,
    "smolvlm": SMOLVLM,
    "idefics3": IDEFICS3,
    "deepseek_vl": DEEPSEEK_VL,
    "deepseek_vl_hybrid": DEEPSEEK_VL_HYBRID,
    "gemma3": GEMMA3,
    "kimi_k25": KIMI_K25,
}
