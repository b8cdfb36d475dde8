"""Configs that ask for what the model's own code, or Kamera, can't do; Transformers is the yardstick."""

from typing import Any

import pytest
import torch
from language_models import KINDS, OWN, model_of, raw_config
from transformers import DynamicCache

from kamera.support import SERVED, Verdict, examine
from kamera.support.texts import TEXTS

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
SCALED: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": YARN,
    "llama3": {
        **YARN,
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}
FAMILY_OF = {text: kind for kind, text in reversed([(k, f.text) for k, f in SERVED.items()])}


def family_config(text: dict[str, Any], **outer: Any) -> dict[str, Any]:
    """A family's config around a text config; a text family's is the text config itself."""
    kind = FAMILY_OF[text["model_type"]]
    if kind == text["model_type"]:
        return {**text, **outer}
    whole = {"model_type": kind, "text_config": text, **outer}
    return whole


def only_reason(verdict: Verdict) -> tuple[str, str]:
    (reason,) = verdict.reasons
    assert verdict.status == "refused"
    return reason.kind, reason.what


@torch.no_grad()
def last_changes_first(raw: dict[str, Any]) -> bool:
    """A first token's KV after two layers changes with the last token: attention looks ahead."""
    model = model_of(raw)
    found = []
    for last in (7, 9):
        cache = DynamicCache()
        ids = torch.tensor([[3, 4, 5, last]])
        model(input_ids=ids, position_ids=torch.arange(4)[None], cache=cache, use_cache=True)
        found.append(cache.layers[1].values[:, :, 0])
    return not torch.equal(*found)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "deepseek_v3", "qwen2_5_vl_text"])
def test_attention_that_is_not_causal_is_refused_and_does_look_ahead(
    kind: str,
) -> None:
    raw = raw_config(kind, is_causal=False)
    assert last_changes_first(raw)
    assert not last_changes_first(raw_config(kind, is_causal=True))
    assert only_reason(examine(family_config(raw))) == ("cannot", "is_causal")
    assert examine(family_config(raw_config(kind, is_causal=True))).status == "supported"


@pytest.mark.parametrize("value", [None, 0])
def test_any_false_value_of_is_causal_is_refused(value: object) -> None:
    """Transformers makes a two-way mask of these too, or fails, by the attention it runs."""
    config = raw_config("llama", is_causal=value)
    assert only_reason(examine(config)) == ("cannot", "is_causal")


@pytest.mark.parametrize("kind", SERVED)
def test_is_causal_is_read_at_every_level(kind: str) -> None:
    text = {"model_type": SERVED[kind].text, **SERVED[kind].sample.get("text_config", {})}
    for config in (
        {"model_type": kind, **SERVED[kind].sample, "is_causal": False},
        {"model_type": kind, "text_config": {**text, "is_causal": False}},
        {"model_type": kind, "thinker_config": {"text_config": text, "is_causal": False}},
    ):
        assert only_reason(examine(config)) == ("cannot", "is_causal")


@pytest.mark.parametrize(
    "head", ["LlamaForSequenceClassification", "LlamaForTokenClassification", "LlamaModel"]
)
def test_the_weights_of_another_class_are_a_limit(head: str) -> None:
    verdict = examine({"model_type": "llama", "architectures": [head]})
    assert verdict.status == "partly"
    (note,) = verdict.notes
    assert head in note
    assert "served is LlamaForCausalLM" in note
    assert "lm_head" in note


@pytest.mark.parametrize("kind", SERVED)
def test_the_names_that_a_class_is_published_under_are_no_limit(kind: str) -> None:
    family = SERVED[kind]
    for name in family.classes:
        config = {"model_type": kind, **family.sample, "architectures": [name]}
        assert examine(config).status == "supported"
    assert (
        examine({"model_type": kind, **family.sample, "architectures": None}).status == "supported"
    )


def place(raw: dict[str, Any], scheme: str, where: str) -> dict[str, Any]:
    own = OWN.get(raw["model_type"], {}).get("rope_scaling", {})
    scaling = {**own, **SCALED[scheme]}
    if where == "rope_scaling":
        scaling["partial_rotary_factor"] = 0.5
    else:
        raw = {**raw, "partial_rotary_factor": 0.5}
    return {**raw, "rope_scaling": scaling}


WHOLE = [kind for kind in KINDS if TEXTS[kind].partial is None]


@pytest.mark.parametrize("where", ["rope_scaling", "top level"])
@pytest.mark.parametrize("scheme", SCALED)
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gemma3_text", "deepseek_v3"])
@torch.no_grad()
def test_a_part_of_a_head_is_refused_where_the_class_can_t_rotate_one(
    kind: str, scheme: str, where: str
) -> None:
    raw = place(raw_config(kind), scheme, where)
    config = family_config(raw)
    model = model_of(place(raw_config(kind), scheme, where))
    with pytest.raises(RuntimeError, match="size"):
        model(input_ids=torch.tensor([[3, 4]]), position_ids=torch.arange(2)[None])
    expected = ("config", f"partial_rotary_factor with rope_type {scheme!r}")
    assert only_reason(examine(config)) == expected


@pytest.mark.parametrize("kind", WHOLE)
def test_every_text_type_without_partial_rotation_refuses_it(kind: str) -> None:
    config = family_config(place(raw_config(kind), "yarn", "top level"))
    assert only_reason(examine(config)) == ("config", "partial_rotary_factor with rope_type 'yarn'")


@pytest.mark.parametrize("scheme", ["default", "proportional"])
@torch.no_grad()
def test_a_scheme_that_fills_the_head_is_served_whatever_the_factor(scheme: str) -> None:
    raw = raw_config("llama", rope_parameters={"rope_type": scheme, "partial_rotary_factor": 0.5})
    assert examine(raw).status == "supported"
    model = model_of(raw)
    model(input_ids=torch.tensor([[3, 4]]), position_ids=torch.arange(2)[None])


@pytest.mark.parametrize("kind", ["glm4v_text", "glm4v_moe_text"])
@torch.no_grad()
def test_a_class_that_rotates_a_part_of_a_head_does_so_in_any_scheme(kind: str) -> None:
    raw = place(raw_config(kind), "yarn", "rope_scaling")
    verdict = examine(family_config(raw))
    assert verdict.status == "supported"
    assert verdict.ropes[0].rotary_dims == 16
    model = model_of(raw)
    model(
        input_ids=torch.tensor([[3, 4]]), position_ids=torch.arange(2)[None, None].expand(3, 1, 2)
    )


@pytest.mark.parametrize(
    ("kind", "section", "says"),
    [
        ("qwen3_vl_text", [1, 2, 3], "add up to 6 pairs"),
        ("qwen3_vl_text", [-8, 12, 12], "none below 0"),
        ("qwen3_vl_text", [2, 7, 7], "h has at most 5 of the 16 pairs"),
        ("qwen3_vl_text", [8, 8], "three lengths"),
        ("qwen3_vl_text", [], "three lengths"),
        ("qwen2_5_vl_text", [-8, 12, 12], "none below 0"),
        ("qwen2_5_vl_text", [4, 4, 4, 4], "three lengths"),
        ("qwen2_5_vl_text", [4, 6, 7], "add up to 17 pairs"),
        ("glm4v_text", [2, 3, 4], "add up to 9 pairs"),
    ],
)
def test_a_section_that_is_no_split_of_the_pairs_is_a_contradiction(
    kind: str, section: list[int], says: str
) -> None:
    raw = raw_config(kind)
    raw["rope_scaling"] = {**raw["rope_scaling"], "mrope_section": section}
    verdict = examine(family_config(raw))
    assert only_reason(verdict) == ("config", f"mrope_section {section}")
    assert says in verdict.reasons[0].why


def test_an_interleaved_section_may_leave_an_axis_out() -> None:
    raw = raw_config("qwen3_vl_text")
    raw["rope_scaling"] = {**raw["rope_scaling"], "mrope_section": [16, 0, 0]}
    assert examine(family_config(raw)).status == "supported"


WITH_TOWERS = [(kind, key) for kind, family in SERVED.items() for key in family.towers]


@pytest.mark.parametrize(("kind", "key"), WITH_TOWERS)
@pytest.mark.parametrize("tower", ["pixtral", "siglip2_vision_model", "clip", ["x"]])
def test_a_tower_that_is_not_tested_is_refused_by_name(kind: str, key: str, tower: object) -> None:
    verdict = examine({"model_type": kind, key: {"model_type": tower}})
    assert only_reason(verdict) == ("not yet", f"{key} of type {tower!r}")
    for known in SERVED[kind].towers[key]:
        assert examine({"model_type": kind, key: {"model_type": known}}).status == "supported"
    assert examine({"model_type": kind, key: {}}).status == "supported"


@pytest.mark.parametrize("kind", SERVED)
def test_towers_are_listed_exactly_where_a_config_may_name_any(kind: str) -> None:
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    specs = CONFIG_MAPPING[kind].sub_configs
    free = {
        key
        for key, spec in specs.items()
        if key != "text_config" and getattr(spec, "config_class", spec) is AutoConfig
    }
    assert set(SERVED[kind].towers) == free


def test_quantized_weights_need_their_package() -> None:
    verdict = examine({"model_type": "llama", "quantization_config": {"quant_method": "gptq"}})
    assert verdict.status == "partly"
    assert "the quantization's own package" in verdict.notes[0]
    assert "ConfigError" in verdict.notes[0]
