"""The M-RoPE families."""

from typing import Any

from checkpoints.checkpoint import Checkpoint, Files
from checkpoints.templates import im_turns
from kamera.lab.conformance.models import case_of
from kamera.lab.conformance.models.grids import NUM_MELS, PATCH
from kamera.lab.conformance.models.qwen_vl import DEEP_TOWER

Spelling = dict[str, tuple[str, str, str]]
"""Kind -> wrapper's start, placeholder, wrapper's end; the kinds that a family takes."""

QWEN: Spelling = {
    "image": ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>"),
    "video": ("<|vision_start|>", "<|video_pad|>", "<|vision_end|>"),
}
QWEN_OMNI: Spelling = {**QWEN, "audio": ("<|audio_start|>", "<|audio_pad|>", "<|audio_end|>")}
OMNI: Spelling = {
    "image": ("<|vision_bos|>", "<|IMAGE|>", "<|vision_eos|>"),
    "video": ("<|vision_bos|>", "<|VIDEO|>", "<|vision_eos|>"),
    "audio": ("<|audio_bos|>", "<|AUDIO|>", "<|audio_eos|>"),
}
GLM: Spelling = {
    "image": ("<|begin_of_image|>", "<|image|>", "<|end_of_image|>"),
    "video": ("<|begin_of_video|>", "<|video|>", "<|end_of_video|>"),
}
PADDLE: Spelling = {"image": ("<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>")}

SPELLING: dict[str, Spelling] = {
    "qwen2_vl": QWEN,
    "qwen2_5_vl": QWEN,
    "qwen3_vl": QWEN,
    "qwen3_vl_moe": QWEN,
    "qwen2_5_omni": OMNI,
    "qwen3_omni_moe": QWEN_OMNI,
    "glm4v": GLM,
    "glm4v_moe": GLM,
    "paddleocr_vl": PADDLE,
}
WITH_VIDEO = tuple(name for name, words in SPELLING.items() if "video" in words)
WITH_AUDIO = tuple(name for name, words in SPELLING.items() if "audio" in words)
DEEPSTACK = ("qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe")


def wrapped(family: str, kind: str) -> str:
    """What its chat template writes for one item."""
    return "".join(SPELLING[family][kind])


def names(words: Spelling) -> dict[str, str]:
    """The names by which processors look tokens up."""
    found = {f"{kind}_token": placeholder for kind, (_, placeholder, _) in words.items()}
    found |= {"vision_bos_token": words["image"][0], "vision_eos_token": words["image"][2]}
    if "audio" in words:
        found |= {"audio_bos_token": words["audio"][0], "audio_eos_token": words["audio"][2]}
    return found


def files(family: str, image_type: str, video_type: str) -> Files:
    """Images up to 64 merged tokens; clips up to 256, at a mean and a deviation of their own."""
    patch = DEEP_TOWER["patch_size"] if family in DEEPSTACK else PATCH
    token = (2 * patch) ** 2
    common = {"patch_size": patch, "merge_size": 2}
    image: dict[str, Any] = {
        **common,
        "image_processor_type": image_type,
        "size": {"shortest_edge": token, "longest_edge": 64 * token},
        "temporal_patch_size": 2 if family in WITH_VIDEO else 1,
    }
    if family in WITH_AUDIO:
        image |= {
            "feature_extractor_type": "WhisperFeatureExtractor",
            "feature_size": NUM_MELS,
            "sampling_rate": 16000,
            "hop_length": 160,
            "n_fft": 400,
            "chunk_length": 4,
        }
    video = {
        **common,
        "video_processor_type": video_type,
        "size": {"shortest_edge": token, "longest_edge": 256 * token},
        "temporal_patch_size": 2,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.3, 0.25, 0.2],
    }
    return {"preprocessor_config.json": image, "video_preprocessor_config.json": video}


def row(
    family: str,
    processor: str,
    image: str = "Qwen2VLImageProcessor",
    video: str = "Qwen2VLVideoProcessor",
) -> Checkpoint:
    """A family's checkpoint by the classes of its processors."""
    words = SPELLING[family]
    model_type = f"{family}_thinker" if family in WITH_AUDIO else family
    spelled = [token for kind in words.values() for token in kind]
    unused = "<|video_pad|>"  # PaddleOCR-VL's config names it
    return Checkpoint(
        case_of(model_type),
        tokens=("<|im_start|>", "<|im_end|>", *dict.fromkeys([*spelled, unused])),
        named=names(words),
        template=im_turns("\\n", **{kind: wrapped(family, kind) for kind in words}),
        files=files(family, image, video),
        processor=processor,
    )


GLM_MEDIA = ("Glm4vImageProcessor", "Glm4vVideoProcessor")
DEEP_MEDIA = ("Qwen2VLImageProcessor", "Qwen3VLVideoProcessor")
MROPE = {
    "qwen2_vl": row("qwen2_vl", "Qwen2VLProcessor"),
    "qwen2_5_vl": row("qwen2_5_vl", "Qwen2_5_VLProcessor"),
    "qwen3_vl": row("qwen3_vl", "Qwen3VLProcessor", *DEEP_MEDIA),
    "qwen3_vl_moe": row("qwen3_vl_moe", "Qwen3VLProcessor", *DEEP_MEDIA),
    "qwen2_5_omni": row("qwen2_5_omni", "Qwen2_5OmniProcessor"),
    "qwen3_omni_moe": row("qwen3_omni_moe", "Qwen3OmniMoeProcessor"),
    "glm4v": row("glm4v", "Glm4vProcessor", *GLM_MEDIA),
    "glm4v_moe": row("glm4v_moe", "Glm4vProcessor", *GLM_MEDIA),
    "paddleocr_vl": row("paddleocr_vl", "PaddleOCRVLProcessor", "PaddleOCRVLImageProcessor"),
}
