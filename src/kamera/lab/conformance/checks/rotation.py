"""The rotation by itself: there and back, twice, nowhere; and the channels that don't rotate."""

from __future__ import annotations

import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.lab.conformance.measure import Outcome, differing, layer_error, worst
from kamera.lab.conformance.subject import Subject
from kamera.rope import PerLayerRope, RopeSpec

FACTOR = 2.0
NUM_TRIPS = 16


def check(subject: Subject) -> list[Outcome]:
    rope, layout = subject.rope, subject.b.layout
    near, far = layout.at(37), subject.spread(layout, subject.far)
    kv, _ = subject.prefill([subject.b], near)
    canonical = kv.to_canonical(near, rope)
    there = canonical.at(far, rope)
    keys = next(channel.name for channel in kv.channels if channel.rotates)
    trips = [plain_round_trip(kv.tensors[keys], int(p.max()), subject) for p in (near, far)]
    two = there.to_canonical(far, rope).at(near, rope)
    back = canonical.at(near, rope)
    return [
        worst(
            "round trip", [(layer_error(back.tensors[keys], kv.tensors[keys]), FACTOR * trips[0])]
        ),
        # Two shifts are two round trips, one at each offset.
        worst(
            "two shifts are their sum",
            [(layer_error(two.tensors[keys], back.tensors[keys]), FACTOR * (trips[0] + trips[1]))],
        ),
        zero_shift(subject, canonical, keys),
        Outcome("position-free bytes", untouched(kv, there, keys, subject), 0.0),
    ]


def zero_shift(subject: Subject, canonical: ChunkKV, keys: str) -> Outcome:
    """Placed at the origin, a canonical is itself bit for bit, times the attention factor."""
    nowhere = torch.zeros_like(subject.b.layout.local)
    placed = canonical.at(nowhere, subject.rope).tensors[keys]
    # The factor goes through a float32 cosine, as in the model.
    scale = torch.tensor([spec.attention_scaling for spec in specs_of(subject)]).float()
    stored = canonical.tensors[keys]
    wanted = stored.float().clone()
    for layer, spec in enumerate(specs_of(subject)):
        turned = slice(0, spec.rotary_dim)
        wanted[layer, ..., turned] = stored[layer, ..., turned].float() * scale[layer]
    return Outcome("zero shift", differing(placed, wanted.to(stored.dtype)), 0.0)


def untouched(cached: ChunkKV, moved: ChunkKV, keys: str, subject: Subject) -> float:
    """Bytes that differ in V or c_KV (layer 0: from the model's own) and in channels that don't turn."""
    own = subject.run([subject.b], subject.spread(subject.b.layout, subject.far)).kv
    differ = 0.0
    for channel in cached.channels:
        before, after = cached.tensors[channel.name], moved.tensors[channel.name]
        if not channel.rotates:
            differ += differing(after, before) + differing(after[0], own.tensors[channel.name][0])
    for layer, spec in enumerate(specs_of(subject)):
        rest = slice(spec.rotary_dim, None)
        differ += differing(
            moved.tensors[keys][layer, ..., rest], cached.tensors[keys][layer, ..., rest]
        )
    return differ


def plain_round_trip(keys: Tensor, position: int, subject: Subject) -> Tensor:
    """[L]: the error of turning keys there and back as Transformers turns them, in the keys' dtype.

    `k * cos + rotate_half(k) * sin`, then the same with -sin; there by the float32 cosines that a model
    takes, back by float64 ones of the same angles: equal but for rounding, to the keys' dtype in the end.
    Where the pairs lie and which axis they read doesn't change that. The largest of sixteen positions, since
    the keys of a short chunk are few.
    """
    trips = [_plain_trip(keys, max(0, position - back), subject) for back in range(NUM_TRIPS)]
    return torch.stack(trips).amax(0)


def _plain_trip(keys: Tensor, position: int, subject: Subject) -> Tensor:
    errors = []
    for layer, spec in enumerate(specs_of(subject)):
        turned = keys[layer, ..., : spec.rotary_dim]
        angles = torch.arange(turned.shape[0])[:, None].neg().add(position).clamp_min(0)
        angles = angles.float() * spec.inv_freq_tensor()
        cos, sin = _tables(angles, spec.attention_scaling, keys.dtype)
        there = turned * cos + _rotate_half(turned) * sin
        cos, sin = _tables(angles.double(), 1 / spec.attention_scaling, keys.dtype)
        back = there * cos - _rotate_half(there) * sin
        errors.append(layer_error(back[None], turned[None]))
    return torch.cat(errors)


def _tables(angles: Tensor, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    cos, sin = (
        (torch.cat([table, table], -1) * scale).to(dtype)[:, None]
        for table in (angles.cos(), angles.sin())
    )
    return cos, sin


def specs_of(subject: Subject) -> list[RopeSpec]:
    """The scheme of each layer."""
    rope, layers = subject.rope, subject.backbone.text_config.num_hidden_layers
    if isinstance(rope, PerLayerRope):
        return [rope.layer(index) for index in range(layers)]
    return [rope] * layers


def _rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)
