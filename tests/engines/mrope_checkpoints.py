"""Tiny random checkpoints of the M-RoPE families, complete with tokenizer and processor settings."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SENTENCES = [
    "what color is the shape? where is the ball, and when? user assistant Frames: 0.5 seconds"
]

QWEN = {
    "image": "<|image_pad|>",
    "video": "<|video_pad|>",
    "audio": "<|audio_pad|>",
    "starts": ("<|vision_start|>", "<|vision_end|>", "<|audio_start|>", "<|audio_end|>"),
}
OMNI = {
    "image": "<|IMAGE|>",
    "video": "<|VIDEO|>",
    "audio": "<|AUDIO|>",
    "starts": ("<|vision_bos|>", "<|vision_eos|>", "<|audio_bos|>", "<|audio_eos|>"),
}
GLM = {
    "image": "<|image|>",
    "video": "<|video|>",
    "audio": "<|audio|>",
    "starts": ("<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>"),
}
PADDLE = {
    "image": "<|IMAGE_PLACEHOLDER|>",
    "video": "<|VIDEO_PLACEHOLDER|>",
    "audio": "<|audio|>",
    "starts": ("<|IMAGE_START|>", "<|IMAGE_END|>", "<|audio_start|>", "<|audio_end|>"),
}
SPELLING = {
    "qwen2_5_omni": OMNI, "glm4v": GLM, "glm4v_moe": GLM, "paddleocr_vl": PADDLE,
}  # fmt: skip
FAMILIES = (
    "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen2_5_omni", "qwen3_omni_moe",
    "glm4v", "glm4v_moe", "paddleocr_vl",
)  # fmt: skip
WITH_VIDEO = tuple(name for name in FAMILIES if name != "paddleocr_vl")
WITH_AUDIO = ("qwen2_5_omni", "qwen3_omni_moe")
DEEPSTACK = ("qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe")


def spelling(family: str) -> dict[str, Any]:
    """The family's special tokens by what they are for."""
    return SPELLING.get(family, QWEN)


def wrapped(family: str, kind: str) -> str:
    """What its chat template writes for one item."""
    words = spelling(family)
    vision_start, vision_end, audio_start, audio_end = words["starts"]
    if kind == "audio" or (kind == "video" and words is GLM):
        vision_start, vision_end = audio_start, audio_end
    return f"{vision_start}{words[kind]}{vision_end}"


def template(family: str) -> str:
    """A chat template with the family's markers."""
    media = "".join(
        f"{{%- elif part['type'] == '{kind}' -%}}{{{{- '{wrapped(family, kind)}' -}}}}"
        for kind in ("image", "video", "audio")
    )
    return (
        "{%- for message in messages -%}{{- '<|im_start|>' + message['role'] + '\\n' -}}"
        "{%- for part in message['content'] -%}"
        "{%- if part['type'] == 'text' -%}{{- part['text'] -}}" + media + "{%- endif -%}"
        "{%- endfor -%}{{- '<|im_end|>\\n' -}}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
    )


def build_tokenizer(family: str) -> Any:
    """A byte-level BPE of some 300 tokens with the family's special tokens and their names."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(SENTENCES * 4, trainer)
    words = spelling(family)
    names = {f"{kind}_token": words[kind] for kind in ("image", "video", "audio")}
    order = ("vision_bos_token", "vision_eos_token", "audio_bos_token", "audio_eos_token")
    names |= dict(zip(order, words["starts"], strict=True)) | {"turn_token": "<|im_start|>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=names,
        chat_template=template(family),
    )


def build_model(family: str, tokenizer: Any, seed: int = 3) -> Any:
    """Random weights so wide that attention and MLPs are far from linear, whatever the default init."""
    config = build_config(family, tokenizer)
    torch.manual_seed(seed)
    name = {
        "qwen2_5_omni_thinker": "Qwen2_5OmniThinkerForConditionalGeneration",
        "qwen3_omni_moe_thinker": "Qwen3OmniMoeThinkerForConditionalGeneration",
    }.get(config.model_type)
    model_class = (
        getattr(transformers, name)
        if name
        else transformers.AutoModelForImageTextToText._model_mapping[type(config)]
    )
    model = model_class(config)
    redraw(model, seed)
    return model.eval()


def redraw(model: Any, seed: int) -> None:
    """Matrices of standard deviation 0.2, or 0.1 in vision towers; biases and norms stir too."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            tower = ".visual." in name
            if weight.ndim >= 2:
                weight.normal_(0.0, 0.1 if tower else 0.2, generator=generator)
            else:
                weight.add_(torch.empty_like(weight).normal_(0.0, 0.1, generator=generator))


def build_config(family: str, tokenizer: Any) -> Any:
    """Three layers, two heads; grids and heads of sizes that differ from each other."""
    words = spelling(family)
    ids = {
        f"{kind}_token_id": tokenizer.convert_tokens_to_ids(words[kind])
        for kind in ("image", "video")
    }
    start, end, audio_start, audio_end = tokenizer.convert_tokens_to_ids(list(words["starts"]))
    vocab_size = len(tokenizer) + 3
    text = {
        "vocab_size": vocab_size,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
    }
    experts = {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
        "decoder_sparse_step": 1, "mlp_only_layers": [],
    }  # fmt: skip
    sections = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 6, 6]}
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48}
    vision |= {"spatial_merge_size": 2, "temporal_patch_size": 2, "patch_size": 14}
    deep = vision | {"depth": 3, "patch_size": 16, "out_hidden_size": 64}
    deep |= {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]}
    woven = {**sections, "mrope_section": [6, 5, 5], "mrope_interleaved": True}
    if family == "qwen2_vl":
        eyes = {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2}
        return transformers.Qwen2VLConfig(
            text_config=text | {"rope_parameters": sections},
            vision_config=eyes,
            vision_start_token_id=start, vision_end_token_id=end, **ids,
        )  # fmt: skip
    windowed = vision | {"out_hidden_size": 64, "window_size": 56, "fullatt_block_indexes": [1]}
    if family == "qwen2_5_vl":
        return transformers.Qwen2_5_VLConfig(
            text_config=text | {"rope_parameters": sections},
            vision_config=windowed | {"tokens_per_second": 3},
            vision_start_token_id=start, vision_end_token_id=end, **ids,
        )  # fmt: skip
    if family in ("qwen3_vl", "qwen3_vl_moe"):
        sparse = family.endswith("moe")
        kind = transformers.Qwen3VLMoeConfig if sparse else transformers.Qwen3VLConfig
        return kind(
            text_config=text
            | {"rope_parameters": woven, "head_dim": 32}
            | (experts if sparse else {}),
            vision_config=deep,
            vision_start_token_id=start, vision_end_token_id=end, **ids,
        )  # fmt: skip
    ears = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 2}
    ears |= {"encoder_ffn_dim": 48, "output_dim": 64, "num_mel_bins": 16, "n_window": 10}
    audio = {
        "audio_token_id": tokenizer.convert_tokens_to_ids(words["audio"]),
        "audio_start_token_id": audio_start, "audio_end_token_id": audio_end,
        "vision_start_token_id": start, "vision_end_token_id": end,
    }  # fmt: skip
    if family == "qwen2_5_omni":
        indexes = {name.replace("_id", "_index"): i for name, i in ids.items()}
        indexes["audio_token_index"] = audio.pop("audio_token_id")
        return transformers.Qwen2_5OmniThinkerConfig(
            text_config=text | {"rope_parameters": sections},
            vision_config=windowed, audio_config=ears, **indexes, **audio,
        )  # fmt: skip
    if family == "qwen3_omni_moe":
        ears |= {"n_window": 50, "n_window_infer": 200, "downsample_hidden_size": 8}
        return transformers.models.qwen3_omni_moe.Qwen3OmniMoeThinkerConfig(
            text_config=text | experts | {"rope_parameters": woven, "head_dim": 32},
            vision_config=deep, audio_config=ears,
            position_id_per_seconds=13, **ids, **audio,
        )  # fmt: skip
    if family in ("glm4v", "glm4v_moe"):
        sparse = family.endswith("moe")
        kind = transformers.Glm4vMoeConfig if sparse else transformers.Glm4vConfig
        half = {**sections, "mrope_section": [2, 3, 3], "partial_rotary_factor": 0.5}
        more = {
            "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
            "n_shared_experts": 1, "first_k_dense_replace": 1, "head_dim": 32,
        }  # fmt: skip
        return kind(
            text_config=text | {"rope_parameters": half} | (more if sparse else {}),
            vision_config=vision | {"out_hidden_size": 64, "image_size": 112},
            image_start_token_id=start, image_end_token_id=end,
            video_start_token_id=audio_start, video_end_token_id=audio_end, **ids,
        )  # fmt: skip
    eyes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    eyes |= {"num_attention_heads": 2, "image_size": 112}
    return transformers.PaddleOCRVLConfig(
        text_config=text | {"rope_parameters": sections, "head_dim": 32},
        vision_config=eyes, tie_word_embeddings=False,
        vision_start_token_id=start, vision_end_token_id=end, **ids,
    )  # fmt: skip


def settings(family: str) -> dict[str, dict[str, Any]]:
    """The settings files of a checkpoint, by name."""
    patch = 16 if family.startswith("qwen3") else 14
    side = 2 * patch
    size = {"shortest_edge": side * side, "longest_edge": 64 * side * side}
    image_type = {
        "glm4v": "Glm4vImageProcessor", "glm4v_moe": "Glm4vImageProcessor",
        "paddleocr_vl": "PaddleOCRVLImageProcessor",
    }.get(family, "Qwen2VLImageProcessor")  # fmt: skip
    common = {"patch_size": patch, "merge_size": 2}
    image = common | {"image_processor_type": image_type, "size": size}
    image["temporal_patch_size"] = 1 if family == "paddleocr_vl" else 2
    if family in WITH_AUDIO:
        image |= {
            "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 16,
            "sampling_rate": 16000, "hop_length": 160, "n_fft": 400, "chunk_length": 4,
        }  # fmt: skip
    video_type = {
        "glm4v": "Glm4vVideoProcessor", "glm4v_moe": "Glm4vVideoProcessor",
        "qwen3_vl": "Qwen3VLVideoProcessor", "qwen3_vl_moe": "Qwen3VLVideoProcessor",
    }.get(family, "Qwen2VLVideoProcessor")  # fmt: skip
    clip = {"shortest_edge": side * side, "longest_edge": 256 * side * side}
    video = common | {"video_processor_type": video_type, "size": clip, "temporal_patch_size": 2}
    video |= {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.3, 0.25, 0.2]}
    return {"preprocessor_config.json": image, "video_preprocessor_config.json": video}


def save(family: str, folder: Path) -> Path:
    """A checkpoint of the family in `folder`, made if need be."""
    tokenizer = build_tokenizer(family)
    build_model(family, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name, content in settings(family).items():
        (folder / name).write_text(json.dumps(content))
    return folder
