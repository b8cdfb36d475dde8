"""Rotation tables of one placement: computed once for all layers, channels and heads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kamera.kernels.contract import Placement
from kamera.rope import RopeSpec
from kamera.rope.angles import check_positions, cos_sin


@dataclass(frozen=True, eq=False)
class Turn:
    """How each written token turns by one rotary scheme.

    Attributes:
        cos, sin: times the attention factor s, float32, from float64 angles.
        still: tokens at the origin when s = 1: they keep their numbers, signs of zeros included.
    """

    cos: Float[Tensor, "T N"]
    sin: Float[Tensor, "T N"]
    still: Bool[Tensor, " T"]


def turns(placement: Placement) -> list[Turn]:
    """The table of each distinct scheme of the rope, in the order of `specs_of`.

    Raises:
        ConfigError: positions or a number of layers that don't fit the rope.
        UnsupportedRopeError: a position beyond its reach.
    """
    specs, _ = specs_of(placement)
    positions = placement.positions
    tables = []
    for spec in specs:
        check_positions(positions, positions.shape[0], spec)
        here = positions[placement.skip :]
        cos, sin = ((spec.attention_scaling * t).to(torch.float32) for t in cos_sin(here, spec))
        still = (here == 0).all(dim=-1)
        if spec.attention_scaling != 1.0:
            still = torch.zeros_like(still)
        tables.append(Turn(cos, sin, still))
    return tables


def specs_of(placement: Placement) -> tuple[tuple[RopeSpec, ...], list[int]]:
    """The distinct schemes, and which of them each layer uses."""
    rope, num_layers = placement.rope, placement.canonical.num_layers
    if isinstance(rope, RopeSpec):
        return (rope,), [0] * num_layers
    return rope.specs, list(rope.layers)
