"""Tiny language models of every served text type, as an early config.json writes them."""

from typing import Any

from text_classes import build_config, build_model

SIZES: dict[str, Any] = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": 64,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_HEAD = {"head_dim": 32}
_MOE = {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}
_MLA = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 48,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "q_lora_rank": None,
    "first_k_dense_replace": 2,
    "n_routed_experts": 4,
    "moe_intermediate_size": 32,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
}
_SECTION = {"rope_scaling": {"rope_type": "default", "mrope_section": [4, 6, 6]}}
_INTERLEAVED = {
    "rope_scaling": {
        "rope_type": "default",
        "mrope_section": [6, 5, 5],
        "mrope_interleaved": True,
    }
}
_GLM = {
    "partial_rotary_factor": 0.5,
    "rope_scaling": {"rope_type": "default", "mrope_section": [2, 3, 3]},
}
OWN: dict[str, dict[str, Any]] = {
    "qwen2_vl_text": {"rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}},
    "qwen2_5_vl_text": _SECTION,
    "qwen2_5_omni_text": _SECTION,
    "qwen3": _HEAD,
    "qwen3_vl_text": {**_HEAD, **_INTERLEAVED},
    "qwen3_vl_moe_text": {**_HEAD, **_MOE, **_INTERLEAVED},
    "qwen3_omni_moe_text": {**_HEAD, **_MOE, **_INTERLEAVED},
    "paddleocr_vl_text": {**_HEAD, **_SECTION},
    "glm4v_text": _GLM,
    "glm4v_moe_text": {
        **_HEAD,
        **_GLM,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    },
    "gemma3_text": {**_HEAD, "sliding_window_pattern": 2, "sliding_window": 8},
    "deepseek_v2": _MLA,
    "deepseek_v3": _MLA,
}
"""What each text type needs besides."""


KINDS = ("llama", "qwen2", *OWN)
"""Every served text type."""


def raw_config(kind: str, **more: Any) -> dict[str, Any]:
    """A config.json of this text type."""
    return {"model_type": kind, **SIZES, **OWN.get(kind, {}), **more}


def model_of(raw: dict[str, Any]) -> Any:
    """The language model of a config.json."""
    return build_model(raw["model_type"], config_of(raw))


def config_of(raw: dict[str, Any]) -> Any:
    """The class's own reading of it."""
    fields = {key: value for key, value in raw.items() if key != "model_type"}
    return build_config(raw["model_type"], **fields)
