"""Values that no config should hold: a clear error that names the key, or a verdict."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_configs import llama

from kamera.errors import ConfigError
from kamera.support import FAMILIES, examine
from kamera.support.texts import TEXTS
from kamera.support.verdict import DTYPE_BYTES


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "expected model_type"),
        ({"model_type": 3}, "expected model_type"),
        ({"model_type": "x" * 10_000}, "Invalid model_type .* at most 200 characters"),
        (llama(hidden_size=10**3999), "Invalid hidden_size .* got 1000.*"),
        (llama(hidden_size=10**5000), "Invalid hidden_size .* got int of too many digits"),
        (llama(head_dim=2**40 + 1), "Invalid head_dim in the config: expected an integer from 1"),
        (llama(num_experts=10**3999), "Invalid num_experts"),
        (
            llama(
                rope_scaling={"rope_type": "dynamic", "factor": 2.0},
                max_position_embeddings=10**3999,
            ),
            "Invalid max_position_embeddings",
        ),
        (llama(rope_theta=1e19), "Invalid rope_theta .* at most 1e18"),
        ({"model_type": "glm4v", "partial_rotary_factor": 1e299}, "Invalid partial_rotary_factor"),
        (
            {"model_type": "qwen2_vl", "rope_scaling": {"mrope_section": [10**3999, 1, 1]}},
            "Invalid mrope_section",
        ),
        (
            {
                "model_type": "qwen3_vl",
                "vision_config": {"deepstack_visual_indexes": [-(10**3999)]},
            },
            "Invalid deepstack_visual_indexes",
        ),
        (llama(layer_types=["x" * 201] * 4), "Invalid layer_types .* at most 200 characters"),
        (llama(architectures="LlamaForCausalLM"), "Invalid architectures .* a list of names"),
        (llama(quantization_config={"quant_method": "q" * 201}), "Invalid quant_method"),
        (llama(dtype="f" * 201), "Invalid dtype"),
        (llama(rope_scaling={"rope_type": "r" * 201}), "Invalid rope_type"),
        ({"model_type": "llava", "text_config": {"model_type": "t" * 201}}, "Invalid model_type"),
        (
            {"model_type": "llama4", "text_config": {"no_rope_layers": [1] * 9}},
            "one for each of the 48",
        ),
        (
            {
                "model_type": "minimax_m3_vl",
                "sparse_attention_config": {"sparse_attention_freq": [1]},
            },
            "Invalid sparse_attention_freq: expected one for each of the 60",
        ),
        (llama(num_hidden_layers="many"), "Invalid num_hidden_layers"),
        (llama(num_hidden_layers=0), "Invalid num_hidden_layers"),
        (llama(num_hidden_layers=10**9), "Invalid num_hidden_layers: expected at most"),
        (llama(rope_theta=10**400), "Invalid rope_theta"),
        (llama(num_attention_heads=True), "Invalid num_attention_heads"),
        (llama(num_key_value_heads=3), "expected a divisor of num_attention_heads=8"),
        (llama(rope_scaling="yarn"), "Invalid rope_scaling"),
        (llama(rope_theta=-1), "Invalid rope_theta"),
        (llama(rope_scaling={"type": 7}), "Invalid rope_type"),
        (llama(layer_types=["full_attention"]), "one for each of the 4 layers"),
        (llama(layer_types="full"), "Invalid layer_types"),
        ({"model_type": "llava", "text_config": [1]}, "Invalid text_config"),
        ({"model_type": "qwen2_5_vl", "rope_scaling": {"mrope_section": "ab"}}, "mrope_section"),
        (
            {"model_type": "kimi_k25", "text_config": {"model_type": "kimi_k2", "kv_lora_rank": 0}},
            "Invalid kv_lora_rank",
        ),
    ],
)
def test_a_value_that_cannot_be_is_a_clear_error(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        examine(config)


BASES = ("llama", "qwen2", "gemma3", "kimi_k25", "qwen3_vl", "qwen3_omni_moe", "glm4v", "llama4")


ABSURD = {
    "4000 digits": 10**3999,
    "5001 digits": 10**5000,
    "below 0": -(10**3999),
    "2**63": 2**63,
    "1e308": 1e308,
}


def told(config: dict[str, Any]) -> str:
    """The error; empty where a verdict could be made, and shown."""
    try:
        verdict = examine(config)
        verdict.explain()
        json.dumps(verdict.to_json(), allow_nan=False)
        verdict.patch_bytes(16, 1024)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ABSURD)
@pytest.mark.parametrize("kind", BASES)
def test_an_absurd_number_under_any_key_gives_a_verdict_or_names_the_key(
    kind: str, name: str
) -> None:
    for key in KEYS:
        for nested in ("", "text_config", "rope_scaling"):
            if key == "model_type" and not nested:
                continue
            part = {key: ABSURD[name]}
            error = told({"model_type": kind, **({nested: part} if nested else part)})
            assert not error or f"{key} in the config: expected" in error
            assert len(error) < 300


KEYS = [
    "text_config", "vision_config", "thinker_config", "model_type", "num_hidden_layers", "layer_types",
    "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim", "rope_scaling", "rope_theta",
    "rope_parameters", "mrope_section", "type", "factor", "partial_rotary_factor", "sliding_window",
    "use_sliding_window", "max_window_layers", "num_kv_shared_layers", "cross_attention_layers", "dtype",
    "full_attn_idxs", "no_rope_layers", "linear_attn_config", "full_attn_layers", "quantization_config",
    "sparse_attention_config", "sparse_attention_freq", "per_layer_config", "global_head_dim", "num_experts",
    "deepstack_visual_indexes", "kv_lora_rank", "qk_rope_head_dim", "use_bidirectional_attention",
    "num_global_key_value_heads", "attention_k_eq_v", "full_attention", "sliding_attention",
    "original_max_position_embeddings", "max_position_embeddings", "torch_dtype", "attention_chunk_size",
]  # fmt: skip


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 9),
    st.floats(allow_nan=True),
    st.sampled_from(
        [*TEXTS, "full_attention", "linear_attention", "yarn", "dynamic", "float32", ""]
    ),
)


VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=30,
)


OBJECTS = st.dictionaries(st.sampled_from(KEYS[1:]), VALUES, max_size=5)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(list(FAMILIES)), OBJECTS, st.none() | OBJECTS | VALUES)
def test_any_json_gives_a_verdict_or_a_clear_error(
    kind: str, config: dict[str, Any], text: object
) -> None:
    try:
        verdict = examine({**config, "text_config": text, "model_type": kind})
    except ConfigError:
        return
    assert len(verdict.layer_types) == verdict.num_layers
    assert (verdict.status == "refused") == bool(verdict.reasons)
    json.dumps(verdict.to_json() if verdict.dtype in (None, *DTYPE_BYTES) else {}, allow_nan=False)
