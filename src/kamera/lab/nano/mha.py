"""nano-mha: a LLaVA checkpoint (CLIP tower, Llama text with as many KV heads as query heads, 1-D RoPE)."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from kamera.lab.nano.family import CLIP_MEAN, CLIP_STD, Chat, Family, normalized, save_files
from kamera.lab.nano.tokenizer import build_plain_tokenizer

FRAME_PX, PATCH = 224, 28
SPECIAL_TOKENS = ("<unk>", "<s>", "</s>", "<pad>", "<image>")
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- message['role'].upper() + ':' -}}"
    "{%- if message['role'] != 'assistant' -%}{{- ' ' -}}{%- endif -%}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}"
    "{%- else -%}"
    "{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{- '<image>\\n' -}}"
    "{%- elif part['type'] == 'text' -%}{{- part['text'] -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{%- if message['role'] == 'assistant' -%}{{- '</s>' -}}{%- else -%}{{- ' ' -}}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- 'ASSISTANT:' -}}{%- endif -%}"
)
"""Vicuna's turns as in LLaVA 1.5, parts in their own order; no space before an answer: it is one token."""


def build_config(tokenizer: Any) -> Any:
    """The family's own configuration at nano size: 64 tokens an image, RoPE base 10⁶."""
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig

    ids = tokenizer.convert_tokens_to_ids
    text = LlamaConfig(
        vocab_size=512,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        bos_token_id=ids("<s>"),
        eos_token_id=ids("</s>"),
        pad_token_id=ids("<pad>"),
        tie_word_embeddings=False,
        dtype="float32",
    )
    vision = CLIPVisionConfig(
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=6,
        image_size=FRAME_PX,
        patch_size=PATCH,
        projection_dim=128,
        dtype="float32",
    )
    return LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=ids("<image>"),
        image_seq_length=(FRAME_PX // PATCH) ** 2,
        vision_feature_select_strategy="default",
        vision_feature_layer=-1,
        tie_word_embeddings=False,
        dtype="float32",
    )


PREPROCESSOR = {
    "image_processor_type": "LlavaImageProcessor",
    "processor_class": "LlavaProcessor",
    "size": {"shortest_edge": FRAME_PX},
    "crop_size": {"height": FRAME_PX, "width": FRAME_PX},
    "image_mean": list(CLIP_MEAN),
    "image_std": list(CLIP_STD),
    "resample": 3,
    "rescale_factor": 1 / 255,
    "do_center_crop": True,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "do_pad": False,
}
PROCESSOR = {
    "processor_class": "LlavaProcessor",
    "image_token": "<image>",
    "num_additional_image_tokens": 1,
    "patch_size": PATCH,
    "vision_feature_select_strategy": "default",
}


def build(folder: Path, *, seed: int = 0) -> tuple[Any, Any]:
    """An untrained model and its tokenizer; all but the weights is saved into `folder`."""
    from transformers import LlavaForConditionalGeneration

    tokenizer = build_plain_tokenizer(
        folder,
        special=SPECIAL_TOKENS,
        words=("USER:", "ASSISTANT:", "SYSTEM:", "\n"),
        chat_template=CHAT_TEMPLATE,
        bos="<s>",
        eos="</s>",
        unk="<unk>",
        pad="<pad>",
    )
    files = {"preprocessor_config.json": PREPROCESSOR, "processor_config.json": PROCESSOR}
    save_files(folder, files)
    torch.manual_seed(seed)
    return LlavaForConditionalGeneration(build_config(tokenizer)), tokenizer


def vision_inputs(images: Tensor) -> dict[str, Tensor]:
    """Every frame at 224 px, as the processor brings it there."""
    if images.shape[1] != FRAME_PX:
        images = torch.stack([_resized(image) for image in images])
    return {"pixel_values": normalized(images, CLIP_MEAN, CLIP_STD)}


def _resized(image: Tensor) -> Tensor:
    size = (FRAME_PX, FRAME_PX)
    larger = Image.fromarray(image.numpy()).resize(size, Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(larger))


FAMILY = Family(
    "mha",
    build,
    vision_inputs,
    tower=("vision_tower", "multi_modal_projector"),
    chat=Chat(
        opening="USER: ",
        before="",
        pad="<image>",
        after=("\n", ""),
        answer=" ASSISTANT:",
        end="</s>",
        turn="</s>USER: ",
    ),
    mrope=False,
    last=("multi_modal_projector.linear_2",),
    frame_px=FRAME_PX,
)
