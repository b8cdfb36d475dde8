"""Rotation tables of one placement: computed once for all layers, channels and heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kamera.errors import ConfigError
from kamera.kernels.contract import Placement
from kamera.rope import RopeSpec
from kamera.rope.angles import check_positions, cos_sin

SPAN = 1024
"""Positions of a kept table."""
MAX_SPANS = 16
"""Kept tables that one chunk may need: one whose positions lie further apart has its own computed."""
FAR = 2**40
"""No table is kept from here on, on either side of 0: a span's end would be beyond int64."""


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
        ConfigError: positions, a head size or a number of layers that don't fit the rope.
        UnsupportedRopeError: a position beyond its reach.
    """
    specs, scheme_of = specs_of(placement)
    keys = _keys(placement)
    wanted = (len(scheme_of), placement.rope.head_dim)
    if (keys.shape[0], keys.shape[3]) != wanted:
        raise ConfigError(
            f"Invalid shape of keys: expected [L={wanted[0]}, T, H, D={wanted[1]}] for this rope, got "
            f"{list(keys.shape)}"
        )
    positions = placement.positions.to(keys.device)
    tables = []
    for spec in specs:
        check_positions(positions, positions.shape[0], spec)
        here = positions[placement.skip :]
        cos, sin = _looked_up(here, spec) or _computed(here, spec)
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


def _keys(placement: Placement) -> Tensor:
    """The channel that rotates."""
    canonical = placement.canonical
    (name,) = (channel.name for channel in canonical.channels if channel.rotates)
    return canonical.tensors[name]


def _computed(positions: Tensor, spec: RopeSpec) -> tuple[Tensor, Tensor]:
    """cos and sin of each token and pair, times s, float32."""
    cos, sin = ((spec.attention_scaling * t).to(torch.float32) for t in cos_sin(positions, spec))
    return cos, sin


def _looked_up(positions: Tensor, spec: RopeSpec) -> tuple[Tensor, Tensor] | None:
    """`_computed` from the kept tables, to the bit; None where they don't serve."""
    if positions.device.type != "cpu" or not len(positions):
        return None
    positions = positions.long()  # a narrower dtype may not hold what lies one further
    low, high = (int(bound) for bound in positions.aminmax())
    spans = range(low // SPAN, high // SPAN + 1)
    if len(spans) > MAX_SPANS or max(-low, high) >= FAR:
        return None
    kept = [_span(spec, index) for index in spans]
    first, origin = low - SPAN * spans.start, SPAN * spans.start
    if high - low == len(positions) - 1 and _in_line(positions, low):
        cos, sin = (_joined(tables, first, len(positions)) for tables in zip(*kept, strict=True))
        return cos, sin
    cos, sin = (_joined(tables, 0, SPAN * len(kept)) for tables in zip(*kept, strict=True))
    by_pair = positions[:, spec.axes_tensor(positions.device)] - origin
    return cos.gather(0, by_pair), sin.gather(0, by_pair)


def _in_line(positions: Tensor, low: int) -> bool:
    """Whether each token is one further than the one before it, on every axis: text."""
    line = torch.arange(low, low + len(positions), device=positions.device)
    return bool((positions == line[:, None]).all())


def _joined(tables: Sequence[Tensor], first: int, count: int) -> Tensor:
    """Rows [first, first + count) of tables of SPAN rows each: a view where one has them all."""
    ends = (first + count - SPAN * index for index in range(len(tables)))
    parts = [table[: max(end, 0)] for table, end in zip(tables, ends, strict=True)]
    parts[0] = parts[0][first:]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


@lru_cache(maxsize=64)
def _span(spec: RopeSpec, index: int) -> tuple[Tensor, Tensor]:
    """`_computed` for SPAN positions, all axes alike: half a megabyte for heads of 128 dims."""
    positions = torch.arange(SPAN * index, SPAN * (index + 1), device="cpu")
    return _computed(positions[:, None].expand(-1, spec.num_axes), spec)
