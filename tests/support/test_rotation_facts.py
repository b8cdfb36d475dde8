"""Scheme, axes, dims and layout as said by a config, against the model's own modules and cached keys."""

from typing import Any

import pytest
import torch
from language_models import KINDS, OWN, config_of, model_of, raw_config
from transformers import DynamicCache

from kamera.rope import PerLayerRope, RopeSpec, read_rope_spec
from kamera.support.facts import facts_of
from kamera.support.texts import TEXTS
from kamera.support.verdict import Rope
from text_classes import build_rotary

SCHEMES: dict[str, dict[str, Any]] = {
    "linear": {"type": "linear", "factor": 4.0},
    "dynamic": {"type": "dynamic", "factor": 4.0},
    "yarn": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
    "longrope": {
        "rope_type": "longrope",
        "short_factor": [1.0] * 16,
        "long_factor": [4.0] * 16,
        "original_max_position_embeddings": 1024,
    },
}
CASES: list[tuple[str, str]] = [
    *((kind, "as published") for kind in KINDS),
    *((kind, scheme) for kind in ("llama", "qwen2", "qwen3") for scheme in SCHEMES),
    ("gemma3_text", "linear"),
    ("deepseek_v2", "yarn"),
    ("deepseek_v3", "yarn"),
    ("qwen2_5_vl_text", "yarn"),
    ("qwen3_vl_text", "yarn"),
]


def raw_of(kind: str, scheme: str) -> dict[str, Any]:
    raw = raw_config(kind, rope_theta=50_000.0)
    if scheme != "as published":
        raw["rope_scaling"] = {**OWN.get(kind, {}).get("rope_scaling", {}), **SCHEMES[scheme]}
        raw["rope_scaling"]["rope_type"] = scheme
    return raw


def check(rope: Rope, spec: RopeSpec) -> None:
    assert rope.scheme == spec.scheme
    assert (rope.axes == "1-D") == (spec.num_axes == 1)
    assert rope.head_dim == spec.head_dim
    assert rope.rotary_dims == 2 * sum(value > 0 for value in spec.inv_freq)
    assert rope.max_positions == spec.max_positions
    if rope.section:
        assert rope.section == tuple(spec.axes.count(axis) for axis in range(3))
        assert (rope.axes == "sectioned") == (list(spec.axes) == sorted(spec.axes))


@pytest.mark.parametrize(("kind", "scheme"), CASES)
def test_a_config_s_rope_is_what_is_read_off_the_model(kind: str, scheme: str) -> None:
    raw = raw_of(kind, scheme)
    config = config_of(raw)
    ropes = facts_of(raw, TEXTS[kind]).ropes
    read = read_rope_spec(build_rotary(kind, config), config)
    if isinstance(read, PerLayerRope):
        by_layer = {rope.layer_type: rope for rope in ropes}
        for layer_type, index in zip(config.layer_types, read.layers, strict=True):
            check(by_layer[layer_type], read.specs[index])
    else:
        (rope,) = ropes
        check(rope, read)
    for rope in ropes:
        own = config.rope_parameters.get(rope.layer_type, config.rope_parameters)
        assert rope.base == own["rope_theta"]


def pair_lengths(keys: torch.Tensor, rope: Rope, layout: str) -> torch.Tensor:
    """[T, H, R/2]: a rotation keeps the length of each pair that it turns."""
    half = rope.rotary_dims // 2
    if layout == "half":
        return torch.hypot(keys[..., :half], keys[..., half : rope.rotary_dims])
    return torch.hypot(keys[..., 0 : rope.rotary_dims : 2], keys[..., 1 : rope.rotary_dims : 2])


def largest_change(lengths: torch.Tensor) -> float:
    """How much a pair's length differs between tokens, in its own length."""
    return float(((lengths - lengths[:1]).abs() / lengths[:1]).max())


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_channels_rotated_dims_and_layout_are_those_of_the_cached_keys(kind: str) -> None:
    raw = raw_config(kind)
    facts = facts_of(raw, TEXTS[kind])
    model = model_of(raw)
    num_axes = 1 if facts.ropes[0].axes == "1-D" else 3
    steps = 1000 * torch.arange(4)  # far apart: the slowest pairs have to move too
    places = torch.stack([steps, 5 + 2 * steps, 11 + 3 * steps]) if num_axes == 3 else steps[None]
    cache = DynamicCache()
    # The same token four times: layer 0's keys differ by their rotation alone.
    ids = torch.full((1, 4), 7)
    positions = places[:, None] if num_axes == 3 else places
    model(input_ids=ids, position_ids=positions, cache=cache, use_cache=True)
    layer = cache.layers[0]
    cached = dict(zip([c.name for c in facts.channels], (layer.keys, layer.values), strict=True))
    for channel in facts.channels:
        assert cached[channel.name].shape == (1, channel.num_heads, 4, channel.dim)
    (rotating,) = [channel.name for channel in facts.channels if channel.rotates]
    keys = cached[rotating][0].transpose(0, 1)
    kind_0 = facts.layer_types[0]
    rope = next(rope for rope in facts.ropes if rope.layer_type in ("all", kind_0))
    other = "pairs" if rope.layout == "half" else "half"
    # Two products and a sum in float32 move a member by at most 5 u of the pair's length (u = 2^-24),
    # so the lengths of two tokens differ by at most 2 · √2 · 5 u.
    assert largest_change(pair_lengths(keys, rope, rope.layout)) <= 15 * 2**-24
    assert largest_change(pair_lengths(keys, rope, other)) > 1e-2
    assert torch.equal(keys[1:, :, rope.rotary_dims :], keys[:-1, :, rope.rotary_dims :])
    assert (keys[1, :, : rope.rotary_dims] != keys[0, :, : rope.rotary_dims]).any(0).all()
