"""nano-mla: a Kimi-K2.5 checkpoint (MoonViT tower, DeepSeek-V3 text with MLA, YaRN, 1-D positions)."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kamera.lab.nano.family import HALF_MEAN, HALF_STD, Chat, Family, normalized, save_files
from kamera.lab.nano.tokenizer import build_plain_tokenizer

PATCH = 14
SPECIAL_TOKENS = (
    "[BOS]",
    "[EOS]",
    "<|im_end|>",
    "<|im_user|>",
    "<|im_assistant|>",
    "<|im_system|>",
    "<|im_middle|>",
    "<|media_begin|>",
    "<|media_content|>",
    "<|media_end|>",
    "<|media_pad|>",
    "<|kimi_k25_video_placeholder|>",
    "[UNK]",
    "[PAD]",
)
IMAGE = "<|media_begin|>image<|media_content|>", "<|media_pad|>", "<|media_end|>"
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_' + message['role'] + '|>' + message['role'] + '<|im_middle|>' -}}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}"
    "{%- else -%}"
    "{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{- '" + "".join(IMAGE) + "' -}}"
    "{%- elif part['type'] == 'video' -%}{{- '<|kimi_k25_video_placeholder|>' -}}"
    "{%- elif part['type'] == 'text' -%}{{- part['text'] -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{{- '<|im_end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_assistant|>assistant<|im_middle|>' -}}{%- endif -%}"
)
"""Turns as the family writes them, without a default system turn and without thinking."""


def build_config(tokenizer: Any) -> Any:
    """The family's own configuration at nano size, with the real latent: 512 + 64 a token and layer.

    Every layer is dense; the keys of the experts are there for readers that want them.
    """
    from transformers import Kimi_K25Config

    ids = tokenizer.convert_tokens_to_ids
    return Kimi_K25Config(
        text_config={
            "model_type": "deepseek_v3",
            "vocab_size": 512,
            "hidden_size": 128,
            "intermediate_size": 384,
            "num_hidden_layers": 8,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "kv_lora_rank": 512,
            "q_lora_rank": None,
            "qk_nope_head_dim": 32,
            "qk_rope_head_dim": 64,
            "v_head_dim": 32,
            "first_k_dense_replace": 8,
            "moe_layer_freq": 1,
            "moe_intermediate_size": 64,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "num_nextn_predict_layers": 0,
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1_000_000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 8192,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            },
            "bos_token_id": ids("[BOS]"),
            "eos_token_id": ids("<|im_end|>"),
            "pad_token_id": ids("[PAD]"),
            "tie_word_embeddings": False,
        },
        vision_config={
            "hidden_size": 96,
            "intermediate_size": 384,
            "num_attention_heads": 3,
            "num_hidden_layers": 3,
            "patch_size": PATCH,
            "merge_kernel_size": [2, 2],
            "pos_emb_height": 16,
            "pos_emb_width": 16,
            "pos_emb_time": 4,
        },
        projection_hidden_size=96,
        image_token_id=ids("<|media_pad|>"),
        video_token_id=ids("<|kimi_k25_video_placeholder|>"),
        vision_start_token_id=ids("<|media_begin|>"),
        vision_end_token_id=ids("<|media_end|>"),
        tie_word_embeddings=False,
        dtype="float32",
    )


PROCESSOR = {
    "patch_size": PATCH,
    "merge_size": 2,
    "max_patches": 1024,
    "size": {"max_height": 512, "max_width": 512},
    "image_mean": list(HALF_MEAN),
    "image_std": list(HALF_STD),
    "resample": 3,
    "rescale_factor": 1 / 255,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "processor_class": "Kimi_K25Processor",
    # The same in the published layout, which vLLM's own processor reads.
    "media_proc_cfg": {
        "in_patch_limit": 1024,
        "patch_size": PATCH,
        "image_mean": list(HALF_MEAN),
        "image_std": list(HALF_STD),
        "merge_kernel_size": 2,
        "fixed_output_tokens": None,
        "patch_limit_on_one_side": 512,
        "in_patch_limit_each_frame": 1024,
        "in_patch_limit_video": None,
        "sample_fps": 2.0,
        "max_num_frames_each_video": None,
        "temporal_merge_kernel_size": 4,
        "timestamp_mode": "hh:mm:ss.fff",
    },
}


def build(folder: Path, *, seed: int = 0) -> tuple[Any, Any]:
    """An untrained model and its tokenizer; all but the weights is saved into `folder`."""
    from transformers import Kimi_K25ForConditionalGeneration

    tokenizer = build_plain_tokenizer(
        folder,
        special=SPECIAL_TOKENS,
        words=("image", "video", "user", "assistant", "system"),
        chat_template=CHAT_TEMPLATE,
        bos="[BOS]",
        eos="<|im_end|>",
        unk="[UNK]",
        pad="[PAD]",
    )
    images = {**PROCESSOR, "image_processor_type": "Kimi_K25ImageProcessor"}
    videos = {**PROCESSOR, "video_processor_type": "Kimi_K25VideoProcessor"}
    files = {"preprocessor_config.json": images, "video_preprocessor_config.json": videos}
    save_files(folder, files)
    torch.manual_seed(seed)
    return Kimi_K25ForConditionalGeneration(build_config(tokenizer)), tokenizer


def vision_inputs(images: Tensor) -> dict[str, Tensor]:
    """Patches in raster order, `[patches, 3, 14, 14]`: frames need no resizing and no padding."""
    pixels = normalized(images, HALF_MEAN, HALF_STD)
    count, _, size, _ = pixels.shape
    side = size // PATCH
    cells = pixels.view(count, 3, side, PATCH, side, PATCH).permute(0, 2, 4, 1, 3, 5)
    return {
        "pixel_values": cells.reshape(-1, 3, PATCH, PATCH),
        "image_grid_thw": torch.tensor([[1, side, side]] * count),
    }


FAMILY = Family(
    "mla",
    build,
    vision_inputs,
    tower=("vision_tower", "mm_projector"),
    chat=Chat(
        opening="<|im_user|>user<|im_middle|>",
        before=IMAGE[0],
        pad=IMAGE[1],
        after=(IMAGE[2],),
        answer="<|im_end|><|im_assistant|>assistant<|im_middle|>",
        end="<|im_end|>",
        turn="<|im_end|><|im_user|>user<|im_middle|>",
    ),
    mrope=False,
    last=("mm_projector.out_proj",),
)
