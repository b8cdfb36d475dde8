"""Every row of defaults against Transformers' own config class, and configs of both generations."""

from typing import Any

import pytest
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from kamera.support.facts import Facts, facts_of
from kamera.support.texts import TEXTS

MORE: dict[str, list[dict[str, Any]]] = {
    "qwen2": [
        {"use_sliding_window": True, "max_window_layers": 3, "num_hidden_layers": 6},
        {"use_sliding_window": True, "sliding_window": None},
        {"num_key_value_heads": None},
    ],
    "qwen2_vl_text": [{"use_sliding_window": True, "max_window_layers": 70, "sliding_window": 128}],
    "qwen2_5_vl_text": [{"use_sliding_window": True, "max_window_layers": 1}],
    "qwen2_5_omni_text": [{"use_sliding_window": True, "max_window_layers": 1}],
    "qwen3": [{"use_sliding_window": True, "max_window_layers": 30, "head_dim": 64}],
    "gemma2": [{"num_hidden_layers": 7}],
    "gemma3_text": [
        {"sliding_window_pattern": 3, "num_hidden_layers": 8, "sliding_window": 100},
        {"layer_types": ["full_attention", "sliding_attention"] * 2, "num_hidden_layers": 4},
    ],
    "gemma3n_text": [{"num_hidden_layers": 20, "num_kv_shared_layers": 10}],
    "gemma4_text": [
        {"num_hidden_layers": 12, "num_kv_shared_layers": 6},
        {"global_head_dim": 256},
        {"attention_k_eq_v": True, "num_global_key_value_heads": 2, "global_head_dim": 256},
    ],
    "qwen3_5_text": [{"full_attention_interval": 3, "num_hidden_layers": 9}],
    "qwen3_next": [{"full_attention_interval": 2, "num_hidden_layers": 8}],
    "kimi_linear": [
        {
            "num_hidden_layers": 4,
            "linear_attn_config": {"full_attn_layers": [2, 4], "kda_layers": [1, 3]},
        }
    ],
    "lfm2": [{"num_hidden_layers": 4, "full_attn_idxs": [1, 2]}],
    "llama4_text": [
        {"num_hidden_layers": 8, "no_rope_layer_interval": 2},
        {"num_hidden_layers": 4, "no_rope_layers": [1, 0, 0, 1]},
        {"attention_chunk_size": None},
    ],
    "minimax_m3_vl_text": [
        {
            "num_hidden_layers": 4,
            "sparse_attention_config": {"sparse_attention_freq": [0, 1, 1, 0]},
        }
    ],
    "deepseek_v2": [{"kv_lora_rank": 32, "qk_rope_head_dim": 16}],
    "deepseek_v3": [{"num_nextn_predict_layers": 1, "num_hidden_layers": 3}],
    "llama": [{"num_key_value_heads": 4}, {"hidden_size": 1024, "num_attention_heads": 8}],
}
CASES = [(kind, more) for kind in TEXTS for more in ({}, *MORE.get(kind, ()))]


def expected_kinds(config: PreTrainedConfig) -> tuple[str, ...]:
    """The layer types as the class has them; where it has none, from how its model makes its mask."""
    listed = getattr(config, "layer_types", None)
    if listed is not None:
        return tuple(listed)
    cross = getattr(config, "cross_attention_layers", None) or ()
    slides = getattr(config, "sliding_window", None) is not None
    plain = "sliding_attention" if slides else "full_attention"
    return tuple(
        "cross_attention" if i in cross else plain for i in range(config.num_hidden_layers)
    )


def expected_shape(config: PreTrainedConfig) -> dict[str, tuple[int, int]]:
    if hasattr(config, "kv_lora_rank"):
        return {"c_kv": (1, config.kv_lora_rank), "k_pe": (1, config.qk_rope_head_dim)}
    heads = config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    shape = (config.num_key_value_heads or heads, dim)
    return {"k": shape, "v": shape}


def facts(kind: str, config: dict[str, Any]) -> Facts:
    return facts_of(config, TEXTS[kind])


@pytest.mark.parametrize(("kind", "more"), CASES)
def test_what_a_config_leaves_out_is_filled_in_as_the_class_does(
    kind: str, more: dict[str, Any]
) -> None:
    config = CONFIG_MAPPING[kind](**more)
    found = facts(kind, more)
    assert found.layer_types == expected_kinds(config)
    if found.sliding_window is not None:
        assert found.sliding_window == config.sliding_window
    if kind == "gemma4_text":  # full and sliding layers have heads of two sizes
        layers = [config.per_layer_config[i] for i in range(config.num_hidden_layers)]
        shapes = {(layer.head_dim, layer.num_key_value_heads) for layer in layers}
        assert (len(shapes) == 1) == bool(found.channels)
    else:
        shapes = {c.name: (c.num_heads, c.dim) for c in found.channels}
        assert shapes == expected_shape(config)


@pytest.mark.parametrize(("kind", "more"), CASES)
def test_a_class_own_dict_says_the_same_as_the_json_that_it_was_made_of(
    kind: str, more: dict[str, Any]
) -> None:
    assert facts(kind, CONFIG_MAPPING[kind](**more).to_dict()) == facts(kind, more)


@pytest.mark.parametrize("kind", TEXTS)
def test_base_and_scheme_are_the_class_s(kind: str) -> None:
    config = CONFIG_MAPPING[kind]()
    parameters = getattr(config, "rope_parameters", None)
    ropes = facts(kind, {}).ropes
    if not parameters:
        assert kind == "kimi_linear"
        assert ropes == ()
        return
    by_layer = parameters if "rope_type" not in parameters else {"all": parameters}
    assert {rope.layer_type for rope in ropes} == set(by_layer)
    for rope in ropes:
        own = by_layer[rope.layer_type]
        assert (rope.scheme, rope.base) == (own["rope_type"], own["rope_theta"])
        if "partial_rotary_factor" in own:
            assert rope.rotary_dims == int(rope.head_dim * own["partial_rotary_factor"])
