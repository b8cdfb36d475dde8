"""Tiny checkpoints of the families with one position axis: whole folders with random, wide weights."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

TEXT = {
    "vocab_size": 400,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
MHA = {**TEXT, "num_key_value_heads": 4}
LATENT = {
    **MHA,
    "model_type": "deepseek_v3",
    "kv_lora_rank": 32,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
}
LATENT.pop("head_dim")
TOWER = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "patch_size": 14,
}
SLIDING = {"sliding_window": 8}
"""Shorter than a prompt, and than an image of Gemma 3's."""

PIXELS = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.5, 0.6, 0.7],
    "rescale_factor": 1 / 255,
}
IM = (
    "{%- for m in messages -%}{{- '<|im_start|>' + m['role'] + 'GAP' -}}"
    "{%- if m['content'] is string -%}{{- m['content'] -}}{%- else -%}"
    "{%- for part in m['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{- 'IMAGE' -}}{%- else -%}{{- part['text'] -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}{{- '<|im_end|>\\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistantGAP' -}}{%- endif -%}"
)
"""Turns as most families write them."""

PLAIN = (
    "{%- for m in messages -%}{{- m['role'].upper() + ': ' -}}"
    "{%- if m['content'] is string -%}{{- m['content'] -}}{%- else -%}"
    "{%- for part in m['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{- 'IMAGE' -}}{%- else -%}{{- part['text'] -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}{{- ' ' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- 'ASSISTANT:' -}}{%- endif -%}"
)
SMOL = (
    "<|im_start|>{% for m in messages %}{{ m['role'] | capitalize }}"
    "{% if m['content'] is string %}{{ ': ' + m['content'] }}{% else %}"
    "{% if m['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}"
    "{% for part in m['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}{{ '<image>' }}{% endif %}"
    "{% endfor %}{% endif %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{%- for m in messages -%}{{ '<start_of_turn>' + m['role'] + '\n' }}"
    "{%- if m['content'] is string -%}{{ m['content'] }}{%- else -%}"
    "{%- for part in m['content'] -%}"
    "{%- if part['type'] == 'image' -%}{{ '<start_of_image>' }}{%- else -%}"
    "{{ part['text'] | trim }}{%- endif -%}{%- endfor -%}{%- endif -%}{{ '<end_of_turn>\n' }}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
)
KIMI = (
    "{%- for m in messages -%}"
    "{{- '<|im_' + m['role'] + '|>' + m['role'] + '<|im_middle|>' -}}"
    "{%- if m['content'] is string -%}{{- m['content'] -}}{%- else -%}"
    "{%- for part in m['content'] -%}{%- if part['type'] == 'image' -%}"
    "{{- '<|media_begin|>image<|media_content|><|media_pad|><|media_end|>' -}}"
    "{%- else -%}{{- part['text'] -}}{%- endif -%}{%- endfor -%}{%- endif -%}"
    "{{- '<|im_end|>' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_assistant|>assistant<|im_middle|>' -}}{%- endif -%}"
)


@dataclass(frozen=True)
class Tiny:
    """A checkpoint to be.

    Attributes:
        config: of the model, but for the ids of tokens.
        media: special tokens by the names of config keys; and `named` those that the processor looks up.
        template: the chat template.
        pixels: preprocessor_config.json.
        adds_start: the tokenizer puts a start token before a text.
        spaced: words begin with a mark of their own, which each run of text gets in front, as the
            first Llamas' do.
        processor: the processor's class, and `settings` what it is made with besides.
        past_table: the placeholder's id lies past the embedding table.
    """

    model: str
    config: dict[str, Any]
    template: str = IM.replace("GAP", "\\n")
    media: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    other: tuple[str, ...] = ("<|im_start|>", "<|im_end|>")
    pixels: dict[str, Any] = field(default_factory=dict)
    adds_start: bool = False
    spaced: bool = False
    processor: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    past_table: bool = False


def _plain_text(model: str, **changes: Any) -> Tiny:
    return Tiny(model, {**TEXT, **changes}, adds_start=model.startswith(("Llama", "Gemma")))


TEXTS = {
    "llama": _plain_text("LlamaForCausalLM"),
    "qwen2": _plain_text("Qwen2ForCausalLM"),
    "qwen2-sliding": _plain_text(
        "Qwen2ForCausalLM", use_sliding_window=True, max_window_layers=1, **SLIDING
    ),
    "qwen3": _plain_text("Qwen3ForCausalLM"),
    "deepseek_v2": Tiny(
        "DeepseekV2ForCausalLM", {**LATENT, "model_type": "deepseek_v2", "topk_method": "greedy"}
    ),
    "deepseek_v3": Tiny("DeepseekV3ForCausalLM", LATENT),
    "gemma3_text": Tiny(
        "Gemma3ForCausalLM",
        {**TEXT, **SLIDING, "num_hidden_layers": 6, "final_logit_softcapping": 5.0},
        adds_start=True,
    ),
}

IMAGES = {
    "llava": Tiny(
        "LlavaForConditionalGeneration",
        {
            "text_config": {**TEXT, "model_type": "llama"},
            "vision_config": {**TOWER, "model_type": "clip_vision_model", "image_size": 42},
            "vision_feature_layer": -2,
            "vision_feature_select_strategy": "default",
        },
        template=PLAIN.replace("IMAGE", "<image>\\n"),
        media={"image_token_id": "<image>"},
        pixels={
            **PIXELS,
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": 42},
            "crop_size": {"height": 42, "width": 42},
            "do_center_crop": True,
        },
        adds_start=True,
        spaced=True,
        processor="LlavaProcessor",
        settings={
            "patch_size": 14,
            "vision_feature_select_strategy": "default",
            "num_additional_image_tokens": 1,
        },
    ),
    "llava-qwen": Tiny(
        "LlavaForConditionalGeneration",
        {
            "text_config": {**TEXT, "model_type": "qwen2"},
            "vision_config": {**TOWER, "model_type": "siglip_vision_model", "image_size": 42},
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
        },
        template=IM.replace("GAP", "\\n").replace("IMAGE", "<image>\\n"),
        media={"image_token_id": "<image>"},
        pixels={
            **PIXELS,
            "image_processor_type": "SiglipImageProcessor",
            "size": {"height": 42, "width": 42},
        },
        processor="LlavaProcessor",
        settings={"patch_size": 14, "vision_feature_select_strategy": "full"},
    ),
    "llava_onevision": Tiny(
        "LlavaOnevisionForConditionalGeneration",
        {
            "text_config": {**TEXT, "model_type": "qwen2"},
            "vision_config": {**TOWER, "model_type": "siglip_vision_model", "image_size": 42},
            "image_grid_pinpoints": [
                [42, 42],
                [42, 84],
                [84, 42],
                [84, 84],
                [42, 126],
                [126, 42],
                [168, 168],
            ],
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
        },
        template=IM.replace("GAP", " ").replace("IMAGE", "<image>\\n"),
        media={"image_token_id": "<image>", "video_token_id": "<video>"},
        pixels={
            **PIXELS,
            "image_processor_type": "LlavaOnevisionImageProcessor",
            "size": {"height": 42, "width": 42},
            "image_grid_pinpoints": [
                [42, 42],
                [42, 84],
                [84, 42],
                [84, 84],
                [42, 126],
                [126, 42],
                [168, 168],
            ],
        },
        processor="LlavaOnevisionProcessor",
        settings={"num_image_tokens": 9, "vision_feature_select_strategy": "full"},
    ),
    "internvl": Tiny(
        "InternVLForConditionalGeneration",
        {
            "text_config": {**TEXT, "model_type": "qwen2"},
            "vision_config": {**TOWER, "model_type": "internvl_vision", "image_size": [56, 56]},
            "image_seq_length": 4,
        },
        template=IM.replace("GAP", "\\n").replace("IMAGE", "<IMG_CONTEXT>\\n"),
        media={"image_token_id": "<IMG_CONTEXT>"},
        named={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        pixels={
            **PIXELS,
            "image_processor_type": "GotOcr2ImageProcessor",
            "size": {"height": 56, "width": 56},
            "min_patches": 1,
            "max_patches": 6,
        },
        processor="InternVLProcessor",
        settings={"image_seq_length": 4},
    ),
    "smolvlm": Tiny(
        "SmolVLMForConditionalGeneration",
        {
            "text_config": {**TEXT, "model_type": "llama"},
            "vision_config": {**TOWER, "image_size": 56},
            "scale_factor": 2,
        },
        template=SMOL,
        media={"image_token_id": "<image>"},
        other=(
            "<|im_start|>",
            "<end_of_utterance>",
            "<fake_token_around_image>",
            "<global-img>",
            *(f"<row_{row}_col_{col}>" for row in range(1, 7) for col in range(1, 7)),
        ),
        pixels={
            **PIXELS,
            "image_processor_type": "SmolVLMImageProcessor",
            "size": {"longest_edge": 168},
            "max_image_size": {"longest_edge": 56},
            "do_image_splitting": True,
            "do_pad": True,
        },
        processor="SmolVLMProcessor",
        settings={"image_seq_len": 4},
    ),
    "deepseek_vl": Tiny(
        "DeepseekVLForConditionalGeneration",
        {
            "text_config": {**MHA, "model_type": "llama"},
            "vision_config": {**TOWER, "model_type": "siglip_vision_model", "image_size": 42},
        },
        template=PLAIN.replace("IMAGE", "<image_placeholder>"),
        media={"image_token_id": "<image_placeholder>"},
        named={"image_token": "<image_placeholder>"},
        pixels={
            **PIXELS,
            "image_processor_type": "DeepseekVLImageProcessor",
            "size": {"height": 42, "width": 42},
            "min_size": 14,
        },
        adds_start=True,
        processor="DeepseekVLProcessor",
        settings={"num_image_tokens": 9},
    ),
    "deepseek_vl_hybrid": Tiny(
        "DeepseekVLHybridForConditionalGeneration",
        {
            "text_config": {**MHA, "model_type": "llama"},
            "vision_config": {**TOWER, "model_type": "siglip_vision_model", "image_size": 42},
            "high_res_vision_config": {
                "model_type": "sam_vision_model",
                "hidden_size": 32,
                "output_channels": 16,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "image_size": 64,
                "patch_size": 16,
                "window_size": 2,
                "global_attn_indexes": [1],
                "mlp_dim": 64,
            },
        },
        template=PLAIN.replace("IMAGE", "<image_placeholder>"),
        media={"image_token_id": "<image_placeholder>"},
        named={"image_token": "<image_placeholder>"},
        pixels={
            **PIXELS,
            "image_processor_type": "DeepseekVLHybridImageProcessor",
            "size": {"height": 42, "width": 42},
            "high_res_size": {"height": 64, "width": 64},
            "min_size": 14,
        },
        adds_start=True,
        processor="DeepseekVLHybridProcessor",
        settings={"num_image_tokens": 9},
    ),
    "gemma3": Tiny(
        "Gemma3ForConditionalGeneration",
        {
            "text_config": {**TEXT, **SLIDING, "num_hidden_layers": 6},
            "vision_config": {**TOWER, "image_size": 56},
            "mm_tokens_per_image": 16,
        },
        template=GEMMA,
        other=("<start_of_turn>", "<end_of_turn>"),
        media={
            "boi_token_index": "<start_of_image>",
            "eoi_token_index": "<end_of_image>",
            "image_token_id": "<image_soft_token>",
        },
        named={
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
        pixels={
            **PIXELS,
            "image_processor_type": "Gemma3ImageProcessor",
            "size": {"height": 56, "width": 56},
            "do_pan_and_scan": None,
        },
        adds_start=True,
        processor="Gemma3Processor",
        settings={"image_seq_length": 16},
        past_table=True,
    ),
    "kimi_k25": Tiny(
        "Kimi_K25ForConditionalGeneration",
        {
            "text_config": LATENT,
            "vision_config": {
                **TOWER,
                "hidden_size": 64,
                "num_attention_heads": 4,
                "pos_emb_height": 8,
                "pos_emb_width": 8,
            },
            "projection_hidden_size": 64,
        },
        template=KIMI,
        media={
            "image_token_id": "<|media_pad|>",
            "video_token_id": "<|kimi_k25_video_placeholder|>",
            "vision_start_token_id": "<|media_begin|>",
            "vision_end_token_id": "<|media_end|>",
        },
        other=(
            "<|im_user|>",
            "<|im_assistant|>",
            "<|im_middle|>",
            "<|im_end|>",
            "<|media_content|>",
        ),
        pixels={
            **PIXELS,
            "image_processor_type": "Kimi_K25ImageProcessor",
            "patch_size": 14,
            "merge_size": 2,
            "max_patches": 48,
            "size": {"max_height": 10, "max_width": 10},
            "resample": 3,
        },
        processor="Kimi_K25Processor",
    ),
}
IMAGES["idefics3"] = Tiny(
    "Idefics3ForConditionalGeneration",
    IMAGES["smolvlm"].config,
    template=SMOL,
    media=IMAGES["smolvlm"].media,
    other=IMAGES["smolvlm"].other,
    pixels={**IMAGES["smolvlm"].pixels, "image_processor_type": "Idefics3ImageProcessor"},
    processor="Idefics3Processor",
    settings={"image_seq_len": 4},
)
TINY = {**TEXTS, **IMAGES}


def build(name: str, folder: Path, seed: int = 1) -> Path:
    """Write the whole checkpoint."""
    tiny = TINY[name]
    tokenizer = _tokenizer(tiny)
    tokenizer.save_pretrained(folder)
    ids = {key: tokenizer.convert_tokens_to_ids(token) for key, token in tiny.media.items()}
    model_class = getattr(transformers, tiny.model)
    config = json.loads(json.dumps({**tiny.config, **ids}))
    if tiny.past_table:
        config["text_config"]["vocab_size"] = ids["image_token_id"]
    (config.get("text_config") or config)["pad_token_id"] = tokenizer.pad_token_id
    model = model_class(model_class.config_class(**config))
    _redraw(model, seed)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    if tiny.pixels:
        (folder / "preprocessor_config.json").write_text(json.dumps(tiny.pixels))
    return folder


def _redraw(model: Any, seed: int) -> None:
    """Matrices so wide that attention and MLPs are far from linear; norms and biases off their start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim >= 2:
                weight.normal_(0.0, 0.1 if "vision" in name else 0.2, generator=generator)
            else:
                weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.1)


def _tokenizer(tiny: Tiny) -> Any:
    lines = ["what color is the shape?", "user assistant", "USER: ASSISTANT:", "\n\n\n\n", "\n\n"]
    backend = Tokenizer(models.BPE())
    if tiny.spaced:
        backend.normalizer = normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        )
        backend.decoder = decoders.Replace("\u2581", " ")
        alphabet = sorted({*map(chr, range(32, 127)), "\n", "\u2581"})
    else:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(lines * 8, trainer)
    start, end, pad = "<s>", "</s>", "<pad>"
    media = [*tiny.named.values(), *tiny.media.values()]
    last = tiny.media.get("image_token_id", "")
    special = dict.fromkeys(
        [*tiny.other, *(t for t in media if t != last), *([last] if last else [])]
    )
    backend.add_special_tokens([start, end, pad, *special])
    if tiny.adds_start:
        first = backend.token_to_id(start)
        backend.post_processor = processors.TemplateProcessing(
            single=f"{start} $A", special_tokens=[(start, first)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=start if tiny.adds_start else None,
        eos_token=end,
        pad_token=pad,
        extra_special_tokens=tiny.named,
        chat_template=tiny.template,
    )
