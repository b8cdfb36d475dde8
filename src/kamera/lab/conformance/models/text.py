"""Text-only models, and the RoPE schemes that they carry."""

from __future__ import annotations

from typing import Any

import transformers

from kamera.lab.conformance.case import Case
from kamera.lab.conformance.vocabulary import Vocabulary

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
"""Heads of 16: 8 pairs, the slowest of which still turns within a window far out."""

DEFAULT: dict[str, Any] = {"rope_type": "default", "rope_theta": 1e4}
LINEAR: dict[str, Any] = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 4096,
}
YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 8192,
}
PROPORTIONAL: dict[str, Any] = {
    "rope_type": "proportional",
    "rope_theta": 1e4,
    "partial_rotary_factor": 0.5,
}
DYNAMIC: dict[str, Any] = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
LONGROPE: dict[str, Any] = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0 + 0.05 * pair for pair in range(8)],
    "long_factor": [4.0] * 8,
    "factor": 8.0,
    "original_max_position_embeddings": 2048,
}
MLA: dict[str, Any] = {
    "num_key_value_heads": 4,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "kv_lora_rank": 24,
    "q_lora_rank": 24,
}
EXPERTS: dict[str, Any] = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 32,
}


def text_config(vocabulary: Vocabulary, parameters: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """A language model: sizes as above, but for `extra`; `parameters` of its RoPE."""
    return {
        **SIZES, "vocab_size": vocabulary.size, **extra, "rope_parameters": dict(parameters),
    }  # fmt: skip


def text(
    model_type: str,
    config: str,
    variant: str,
    parameters: dict[str, Any],
    seed: int = 0,
    **extra: Any,
) -> Case:
    """A text model."""

    def make(vocabulary: Vocabulary) -> Any:
        return getattr(transformers, config)(**text_config(vocabulary, parameters, **extra))

    return Case(model_type, variant, make, seed=seed)


CASES = (
    text("llama", "LlamaConfig", "", DEFAULT),
    text("llama", "LlamaConfig", "", LINEAR),
    text("llama", "LlamaConfig", "", LLAMA3),
    text("llama", "LlamaConfig", "", YARN),
    text("llama", "LlamaConfig", "", PROPORTIONAL),
    text("llama", "LlamaConfig", "", DYNAMIC, max_position_embeddings=2048),
    text("llama", "LlamaConfig", "", LONGROPE),
    text("llama", "LlamaConfig", "MHA", DEFAULT, num_key_value_heads=4),
    text("qwen2", "Qwen2Config", "", DEFAULT),
    text("qwen2", "Qwen2Config", "", YARN),
    text(
        "qwen2",
        "Qwen2Config",
        "sliding",
        DEFAULT,
        use_sliding_window=True,
        sliding_window=12,
        max_window_layers=1,
    ),
    text("qwen3", "Qwen3Config", "", DEFAULT, head_dim=32),
    text("deepseek_v2", "DeepseekV2Config", "", DEFAULT, **MLA, **EXPERTS),
    text("deepseek_v2", "DeepseekV2Config", "", YARN, **MLA, **EXPERTS),
    text("deepseek_v3", "DeepseekV3Config", "", DEFAULT, **MLA, **EXPERTS),
    text("deepseek_v3", "DeepseekV3Config", "", YARN, **MLA, **EXPERTS),
    text(
        "gemma3_text",
        "Gemma3TextConfig",
        "sliding",
        {"sliding_attention": DEFAULT, "full_attention": {**LINEAR, "rope_theta": 1e6}},
        head_dim=32,
        num_hidden_layers=4,
        layer_types=["sliding_attention", "full_attention"] * 2,
        sliding_window=12,
        final_logit_softcapping=5.0,
        query_pre_attn_scalar=32,
    ),
)
