"""Layers by their types: refused, sliding, sharing KV; told in few words however many there are."""

import time

import pytest
import torch
from language_models import model_of, raw_config
from small_configs import MROPE_OF, SMALL, llama
from transformers import DynamicCache

from kamera.support import SERVED, examine
from kamera.support.facts import facts_of
from kamera.support.ranges import ranges
from kamera.support.texts import TEXTS


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
    model = model_of(raw)
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
    model = model_of(raw)
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
