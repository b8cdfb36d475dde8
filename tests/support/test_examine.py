"""The rules behind the rows: layers, schemes, language models, contradictions, quantized weights."""

import json
import time
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from language_models import build_config, build_model, raw_config
from published import SERVED as PUBLISHED
from transformers import DynamicCache
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from kamera.errors import ConfigError
from kamera.support import FAMILIES, SERVED, examine
from kamera.support.facts import facts_of
from kamera.support.ranges import ranges
from kamera.support.texts import TEXTS
from kamera.support.verdict import DTYPE_BYTES

SMALL: dict[str, Any] = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
}


MROPE_OF = {"qwen2_5_vl": {"rope_scaling": {"mrope_section": [8, 12, 12]}}}


def llama(**more: Any) -> dict[str, Any]:
    return {"model_type": "llama", **SMALL, **more}


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_row_is_what_it_says(kind: str) -> None:
    family = FAMILIES[kind]
    verdict = examine({"model_type": kind, **family.sample})
    assert verdict.family == family.name
    assert verdict.status == ("supported" if family.served else "refused")
    assert verdict.modalities == family.modalities
    if family.served:
        assert family.tested
        assert verdict.channels
        assert verdict.ropes
    else:
        assert all(reason.why and reason.todo for reason in verdict.reasons)


@pytest.mark.parametrize("kind", [k for k, family in FAMILIES.items() if family.served])
def test_a_served_row_names_a_class_of_transformers(kind: str) -> None:
    import transformers

    assert hasattr(transformers, SERVED[kind].model_class)
    assert SERVED[kind].text in TEXTS


def test_a_row_says_remote_code_exactly_where_transformers_has_no_native_class() -> None:
    remote = {kind for kind, family in FAMILIES.items() if family.kind == "remote code"}
    assert {kind for kind in FAMILIES if kind not in CONFIG_MAPPING_NAMES} == remote


@pytest.mark.parametrize("kind", SERVED)
@pytest.mark.parametrize("layer", ["linear_attention", "mamba", "conv", "chunked_attention", "new"])
def test_a_layer_that_cannot_be_relocated_refuses_any_family(kind: str, layer: str) -> None:
    layers = ["full_attention", layer, layer, "full_attention"]
    text = {"model_type": SERVED[kind].text, **SMALL, "layer_types": layers}
    verdict = examine(
        {"model_type": kind, "text_config": text} if kind != text["model_type"] else text
    )
    assert verdict.status == "refused"
    (blocked,) = verdict.blocked
    assert blocked.layers == (1, 2)
    assert verdict.reasons[0].what.startswith("2 of 4 layers: ")
    assert verdict.reasons[0].what.endswith(", 1-2")


def test_sliding_layers_are_served_where_they_are_tested_and_partly_elsewhere() -> None:
    sliding = {"use_sliding_window": True, "max_window_layers": 2, "sliding_window": 64}
    qwen = examine({"model_type": "qwen3", **SMALL, **sliding})
    assert qwen.status == "partly"
    assert qwen.sliding_layers == (2, 3)
    assert qwen.sliding_window == 64
    assert "Layers 2-3 see a window of 64 tokens" in qwen.notes[0]
    assert "no test runs qwen3 with such layers" in qwen.notes[0]
    for kind in ("qwen2", "qwen2_5_vl"):
        tested = examine({"model_type": kind, **SMALL, **sliding, **MROPE_OF.get(kind, {})})
        assert tested.status == "supported"
        assert tested.notes == (
            "Sliding layers keep all their KV; the model's own mask cuts the window.",
        )
    gemma = examine({"model_type": "gemma3_text", **SMALL, "sliding_window": 64})
    assert gemma.status == "supported"
    assert gemma.sliding_layers == (0, 1, 2, 3)


@torch.no_grad()
def values_at(start: int, window: int | None) -> torch.Tensor:
    """V of layer 1, [H, T, D], of 12 tokens that begin at a position; the layer slides if told so."""
    slides = {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": window}
    raw = raw_config("qwen2", **(slides if window is not None else {}))
    model = build_model("qwen2", build_config(raw))
    cache = DynamicCache()
    ids = torch.arange(3, 15)[None]
    model(input_ids=ids, position_ids=start + torch.arange(12)[None], cache=cache, use_cache=True)
    values: torch.Tensor = cache.layers[1].values[0]
    return values


def test_a_sliding_layer_s_kv_is_kept_whole_and_position_free() -> None:
    """What `partly` rests on: a plain DynamicCache holds all tokens, and V is the same at any start.

    The yardstick is the same model with full attention: both differ by the rounding of angles alone.
    """
    here, there = values_at(0, window=4), values_at(37, window=4)
    assert here.shape[1] == 12
    full = (values_at(0, window=None) - values_at(37, window=None)).abs().max()
    assert (here - there).abs().max() <= 2 * full


def test_shared_kv_is_refused_and_without_it_the_family_is_untested() -> None:
    shared = {"model_type": "gemma3n_text", "num_hidden_layers": 10, "num_kv_shared_layers": 4}
    found = examine({"model_type": "gemma3n", "text_config": shared})
    assert [r.what for r in found.reasons] == ["4 of 10 layers: shared KV, 6-9"]
    found = examine({"model_type": "gemma3n", "text_config": {**shared, "num_kv_shared_layers": 0}})
    assert [r.kind for r in found.reasons] == ["not yet"]


@torch.no_grad()
def test_layers_that_share_kv_cache_none() -> None:
    raw = {
        **raw_config(
            "gemma3n_text", head_dim=32, num_kv_shared_layers=2, vocab_size_per_layer_input=64
        ),
        "num_hidden_layers": 6,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "activation_sparsity_pattern": [0.0] * 6,
    }
    facts = facts_of(raw, TEXTS["gemma3n_text"])
    (blocked,) = facts.blocked
    cache = DynamicCache()
    model = build_model("gemma3n_text", build_config(raw))
    model(input_ids=torch.arange(3, 15)[None], cache=cache, use_cache=True)
    assert len(cache.layers) == 6 - len(blocked.layers) == 4
    assert not blocked.has_kv


def test_gemma_4_without_shared_kv_is_refused_for_heads_of_two_sizes() -> None:
    text = {"model_type": "gemma4_text", "num_kv_shared_layers": 0}
    found = examine({"model_type": "gemma4", "text_config": text})
    assert {r.kind for r in found.reasons} == {"not yet"}
    assert found.reasons[0].what == "global_head_dim"
    assert found.channels == ()
    assert found.bytes_per_token() is None
    even = examine({"model_type": "gemma4", "text_config": {**text, "global_head_dim": 256}})
    assert [r.what for r in even.reasons] == ["model type 'gemma4'"]


@pytest.mark.parametrize(
    ("scheme", "more", "bound"),
    [
        ("dynamic", {"factor": 2.0}, 2047),
        ("longrope", {"original_max_position_embeddings": 1024}, 1024),
    ],
)
def test_a_scheme_that_switches_is_served_below_the_switch(
    scheme: str, more: dict[str, Any], bound: int
) -> None:
    scaling = {"rope_type": scheme, **more}
    verdict = examine(llama(max_position_embeddings=2048, rope_scaling=scaling))
    assert verdict.status == "partly"
    assert verdict.ropes[0].max_positions == bound
    assert f"{bound:,}" in verdict.notes[0]


def test_a_refusal_can_be_told_in_one_line() -> None:
    verdict = examine({"model_type": "kimi_vl"})
    line = verdict.explain()
    assert line.startswith("model type 'kimi_vl': its published layout has no native class")
    assert line.endswith(verdict.reasons[0].todo)
    assert "\n" not in line
    assert examine(llama()).explain() == ""


def test_an_unknown_scheme_is_refused() -> None:
    verdict = examine(llama(rope_scaling={"type": "spiral", "factor": 2.0}))
    (reason,) = verdict.reasons
    assert (reason.kind, reason.what) == ("cannot", "rope_type 'spiral'")


def test_a_language_model_that_is_not_tested_in_a_family_is_refused() -> None:
    mistral = {"model_type": "mistral", **SMALL}
    (reason,) = examine({"model_type": "llava", "text_config": mistral}).reasons
    assert reason.kind == "not yet"
    assert reason.what == "language model 'mistral'"
    (reason,) = examine({"model_type": "llava", "text_config": {"model_type": "phi"}}).reasons
    assert reason.what == "language model 'phi'"


def test_a_language_model_that_is_tested_alone_is_served_with_a_note() -> None:
    verdict = examine({"model_type": "internvl", "text_config": {"model_type": "qwen3", **SMALL}})
    assert verdict.status == "supported"
    assert any("qwen3 is tested on its own" in note for note in verdict.notes)


def test_a_section_that_does_not_fill_the_head_is_a_contradiction() -> None:
    config = {"model_type": "qwen2_5_vl", **SMALL, "rope_scaling": {"mrope_section": [2, 3, 3]}}
    (reason,) = examine(config).reasons
    assert reason.kind == "config"
    assert "8 pairs" in reason.why


def test_bidirectional_attention_is_refused() -> None:
    text = {"model_type": "gemma3_text", **SMALL, "use_bidirectional_attention": True}
    assert [r.what for r in examine(text).reasons] == ["use_bidirectional_attention"]
    assert examine({**text, "use_bidirectional_attention": False}).status == "supported"


def test_quantized_weights_are_a_limit_and_kv_keeps_its_dtype() -> None:
    verdict = examine(llama(quantization_config={"quant_method": "awq"}, torch_dtype="float16"))
    assert (verdict.status, verdict.quantization) == ("partly", "awq")
    assert verdict.bytes_per_token() == 4 * 2 * 2 * 64 * 2
    assert "awq" in verdict.notes[0]


@pytest.mark.parametrize("name", ["int3", "auto", ""])
def test_an_unknown_dtype_is_an_error_where_bytes_are_asked_for(name: str) -> None:
    verdict = examine(llama(torch_dtype=name or "uint7"))
    if name == "auto":
        assert verdict.cache_dtype() == "bfloat16"
        return
    with pytest.raises(ConfigError, match="expected one of float64, float32"):
        verdict.bytes_per_token()
    assert verdict.bytes_per_token("torch.float16") == 4 * 2 * 2 * 64 * 2


@pytest.mark.parametrize("heads", [(8, "mha"), (2, "gqa"), (1, "mqa"), (None, "mha")])
def test_attention_is_named_by_its_kv_heads(heads: tuple[int | None, str]) -> None:
    assert examine(llama(num_key_value_heads=heads[0])).attention == heads[1]


def test_an_unknown_model_type_names_the_nearest_and_what_is_served() -> None:
    verdict = examine({"model_type": "qwen2_5_vll", "hidden_size": 64})
    (reason,) = verdict.reasons
    assert (verdict.status, reason.kind, verdict.family) == ("refused", "unknown", None)
    assert "Nearest: qwen2_5_vl." in reason.why
    assert all(kind in reason.why for kind in SERVED)
    assert verdict.bytes_per_token() is None


def test_a_vision_model_s_language_model_alone_says_so() -> None:
    (reason,) = examine({"model_type": "qwen3_vl_text", **SMALL, "head_dim": 64}).reasons
    assert reason.kind == "not yet"
    assert "whole model's folder" in reason.todo


def test_a_talker_is_never_taken_for_the_thinker() -> None:
    config, known = PUBLISHED["Qwen2.5-Omni-7B"]
    verdict = examine(config)
    assert verdict.num_layers == 28
    assert verdict.modalities == ("text", "image", "video", "audio")
    assert any("talker" in note for note in verdict.notes)
    thinker = examine(config["thinker_config"])
    assert thinker.bytes_per_token() == known["bytes"] == verdict.bytes_per_token()


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


def test_thousands_of_layer_types_are_summed_up() -> None:
    kinds = [f"new_{i}" for i in range(9_999)]
    verdict = examine(llama(num_hidden_layers=9_999, layer_types=kinds))
    whats = [reason.what for reason in verdict.reasons]
    assert whats == [
        "1 of 9999 layers: new_0, 0",
        "1 of 9999 layers: new_1, 1",
        "1 of 9999 layers: new_2, 2",
        "9996 of 9999 layers: 9,996 more types, 3-9998",
    ]
    assert sum(len(blocked.layers) for blocked in verdict.blocked) == 9_999


def test_many_runs_of_layers_are_counted() -> None:
    kinds = ["full_attention", "linear_attention"] * 5_000
    (reason,) = examine(llama(num_hidden_layers=10_000, layer_types=kinds)).reasons
    assert reason.what.endswith(", 75, 77, 79 and 4,960 more")


def test_a_long_list_of_indices_is_looked_up_not_searched() -> None:
    """10,000 layers sought in a list of 100,000 are 10^9 comparisons, of 10 ns or so: far above the bound."""
    text = {"model_type": "lfm2", "num_hidden_layers": 10_000, "full_attn_idxs": [-1] * 100_000}
    started = time.process_time()
    examine({"model_type": "lfm2_vl", "text_config": text})
    assert time.process_time() - started < 4


def test_names_from_a_config_are_told_with_escapes() -> None:
    layers = ["\x1b[31mred", "full_attention", "full_attention", "full_attention"]
    line = examine(llama(layer_types=layers)).explain()
    assert "\\x1b[31mred" in line
    verdict = examine(llama(quantization_config={"quant_method": "\x1b[2J"}))
    for text in (line, *verdict.notes, examine({"model_type": "\ud800"}).explain()):
        assert text.isprintable()


def test_ranges_are_runs() -> None:
    assert ranges((0, 1, 2, 4, 7, 8)) == "0-2, 4, 7-8"
    assert ranges(()) == ""


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
