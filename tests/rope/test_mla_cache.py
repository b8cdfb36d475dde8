"""What MLA models really cache: the real attention modules of DeepSeek-V2 and V3, one layer each.

V2 turns neighbouring channels and caches them where they are. V3 with `rope_interleave` takes them
apart before it caches, so that its cache is in halves either way. Kimi's text model is V3.
"""

import pytest
import torch
from rope_models import DEFAULT, MLA, SIZES, YARN
from transformers import DynamicCache

from kamera.channels import ChunkKV
from kamera.rope import read_rope_spec
from text_classes import build_config, build_model, build_rotary

NUM_TOKENS = 13
CASES = {
    "deepseek_v2": ("deepseek_v2", "pairs", {}),
    "deepseek_v3": ("deepseek_v3", "half", {"rope_interleave": False}),
    "deepseek_v3 interleaved": ("deepseek_v3", "half", {"rope_interleave": True}),
}


def build(name, parameters):
    kind, layout, extra = CASES[name]
    one = {"num_hidden_layers": 1, "first_k_dense_replace": 1}
    fields = {**SIZES, **MLA, **one, **extra, "rope_parameters": parameters}
    config = build_config(kind, **fields)
    config._attn_implementation = "eager"
    attention = build_model(kind, config).layers[0].self_attn
    rotary = build_rotary(kind, config)
    return attention, rotary, read_rope_spec(rotary, config), layout


@torch.no_grad()
def cached(attention, rotary, offset):
    """The layer's latents and rotary keys, as ChunkKV, of fixed hidden states at an offset."""
    hidden = torch.randn(1, NUM_TOKENS, 128, generator=torch.Generator().manual_seed(1))
    cache = DynamicCache()
    tables = rotary(hidden, offset + torch.arange(NUM_TOKENS)[None])
    attention(hidden, position_embeddings=tables, attention_mask=None, cache=cache)
    layer = cache.layers[0]
    c_kv, k_pe = layer.keys[0].transpose(0, 1), layer.values[0].transpose(0, 1)
    return ChunkKV({"c_kv": c_kv[None], "k_pe": k_pe[None]})


@pytest.mark.parametrize("parameters", [DEFAULT, YARN], ids=["default", "yarn"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("offset", [37, 30000])
def test_a_cached_layer_moves_to_where_the_model_would_cache_it(name, offset, parameters):
    attention, rotary, spec, layout = build(name, parameters)
    assert (spec.layout, spec.head_dim) == (layout, 32)
    home, away = cached(attention, rotary, 517), cached(attention, rotary, offset)
    source, target = (start + torch.arange(NUM_TOKENS)[:, None] for start in (517, offset))
    moved = home.to_canonical(source, spec).at(target, spec)
    assert moved.tensors["c_kv"].data_ptr() == home.tensors["c_kv"].data_ptr()
    assert torch.equal(moved.tensors["c_kv"], away.tensors["c_kv"])
    wanted = away.tensors["k_pe"]
    assert (moved.tensors["k_pe"] - wanted).abs().max() <= 1e-6 * wanted.abs().max()
    assert (home.tensors["k_pe"] - wanted).abs().max() > 1e-2 * wanted.abs().max()
