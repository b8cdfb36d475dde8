"""The rules behind the rows: schemes, language models, contradictions, quantized weights."""

from typing import Any

import pytest
from published import SERVED as PUBLISHED
from small_configs import SMALL, llama
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from kamera.errors import ConfigError
from kamera.support import FAMILIES, SERVED, examine
from kamera.support.texts import TEXTS


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
