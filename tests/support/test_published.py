"""The verdict on configs as published: facts, bytes per token, and the reason of a refusal."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from published import REFUSED, SERVED
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from kamera.support import FAMILIES, examine, read_config

NATIVE_REFUSED = [
    name for name, (config, _) in REFUSED.items() if config["model_type"] in CONFIG_MAPPING
]


def written(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return read_config(folder)


@pytest.mark.parametrize("name", SERVED)
def test_a_served_checkpoint_s_facts_are_right(name: str, tmp_path: Path) -> None:
    config, known = SERVED[name]
    verdict = examine(written(config, tmp_path))
    assert verdict.status == known.get("status", "supported"), (verdict.reasons, verdict.notes)
    assert bool(verdict.reasons) is False
    assert bool(verdict.blocked) is False
    assert verdict.bytes_per_token("bfloat16") == known["bytes"]
    assert verdict.attention == known["attention"]
    assert verdict.deepstack_levels == known.get("deepstack", 0)
    assert verdict.num_experts == known.get("experts", 0)
    rope = verdict.ropes[0]
    assert (rope.axes, rope.scheme) == (known["axes"], known.get("scheme", "default"))
    assert rope.base == known["base"]
    assert rope.max_positions == known.get("max_positions")
    assert rope.rotary_dims == known.get("rotary", rope.head_dim)
    assert verdict.sliding_window == known.get("window")
    if "local_base" in known:
        local = verdict.ropes[1]
        assert (local.scheme, local.base) == ("default", known["local_base"])
    assert verdict.model_class == FAMILIES[config["model_type"]].model_class


@pytest.mark.parametrize("name", SERVED)
def test_a_checkpoint_s_own_dtype_is_found(name: str) -> None:
    expected = "float16" if name.startswith(("LLaVA-1.5", "DeepSeek-VL-7B")) else "bfloat16"
    assert examine(SERVED[name][0]).dtype == expected


@pytest.mark.parametrize("name", [*SERVED, *NATIVE_REFUSED])
def test_the_class_s_dict_gets_the_same_verdict_as_the_published_file(name: str) -> None:
    config, _ = SERVED.get(name) or REFUSED[name]
    own = copy.deepcopy(config)  # the class writes into nested dicts
    loaded = CONFIG_MAPPING[own.pop("model_type")](**own).to_dict()
    assert examine(loaded) == examine(config)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_checkpoint_says_why(name: str, tmp_path: Path) -> None:
    config, known = REFUSED[name]
    verdict = examine(written(config, tmp_path))
    assert verdict.status == "refused"
    assert verdict.modalities == ()
    first = verdict.reasons[0]
    assert first.kind == known["kind"]
    assert known["says"] in " ".join((first.what, first.why, first.todo))
    assert all(reason.why and reason.todo for reason in verdict.reasons)
    assert sum(len(blocked.layers) for blocked in verdict.blocked) == known["blocked"]
    assert verdict.bytes_per_token("bfloat16") == known["bytes"]


def test_the_7b_takes_57_344_bytes_a_token() -> None:
    verdict = examine(SERVED["Qwen2.5-VL-7B"][0])
    assert verdict.bytes_per_token() == 57_344
    assert verdict.bytes_per_token("float32") == 2 * 57_344
    # Rank 16 on 1024 tokens: 28 layers, k and v, U [1024, 16] and V [512, 16], two bytes a value.
    assert verdict.patch_bytes(16, 1024) == 28 * 2 * 16 * (1024 + 512) * 2
