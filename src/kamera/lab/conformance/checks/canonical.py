"""The canonical against the model's own keys before RoPE, in every layer.

They are overheard where the model rotates them. Un-rotating must give them back, attention factor and all:
the bound is twice what turning them there and back costs in plain torch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from kamera.lab.conformance.checks.rotation import plain_round_trip
from kamera.lab.conformance.measure import Outcome, layer_error, worst
from kamera.lab.conformance.pieces import Piece
from kamera.lab.conformance.subject import Subject
from kamera.shapes import Positions

FACTOR = 2.0
ROTATIONS = ("apply_rotary_pos_emb", "apply_rotary_emb", "apply_rotary_pos_emb_interleave")
"""What Transformers calls the function that turns queries and keys; a module has those that it uses."""


def check(subject: Subject) -> list[Outcome]:
    positions = subject.spread(subject.b.layout, subject.far)
    wanted = keys_before_rope(subject, [subject.b], positions)
    kv, _ = subject.prefill([subject.b], positions)
    keys = next(channel.name for channel in kv.channels if channel.rotates)
    got = kv.to_canonical(positions, subject.rope).tensors[keys]
    bound = FACTOR * plain_round_trip(wanted, int(positions.max()), subject)
    return [worst("canonical is the key before RoPE", [(layer_error(got, wanted), bound)])]


def keys_before_rope(subject: Subject, pieces: Sequence[Piece], positions: Positions) -> Tensor:
    """[L, T, H, D] of the rotating channel, as the plain forward hands them to its rotation.

    Raises:
        ValueError: another number of rotations than layers: the model rotates elsewhere.
    """
    with overheard(subject.backbone.model) as heard:
        subject.plain.run(pieces, positions)
    num_layers = subject.backbone.text_config.num_hidden_layers
    if len(heard) != num_layers:
        raise ValueError(f"Heard {len(heard)} rotations in {num_layers} layers: expected one each")
    return torch.stack([key[0].transpose(0, 1) for key in heard])


@contextmanager
def overheard(model: Any) -> Iterator[list[Tensor]]:
    """Keys [1, H, T, D] that pass through the rotation of the language model's attention."""
    home = sys.modules[type(model.get_decoder().layers[0].self_attn).__module__]
    own = {name: getattr(home, name) for name in ROTATIONS if hasattr(home, name)}
    heard: list[Tensor] = []

    def listening(name: str) -> Any:
        def rotate(q: Tensor, k: Tensor, *rest: Any, **options: Any) -> Any:
            # This one puts neighbours half a head apart first, and so they are cached.
            interleaved = name.endswith("interleave")
            heard.append(torch.cat([k[..., ::2], k[..., 1::2]], -1) if interleaved else k.clone())
            return own[name](q, k, *rest, **options)

        return rotate

    try:
        for name in own:
            setattr(home, name, listening(name))
        yield heard
    finally:
        for name, function in own.items():
            setattr(home, name, function)
