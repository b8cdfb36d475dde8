"""What an apply kernel is given, where it writes, and what it promises.

A kernel computes `R(p) · (canonical + u @ vt)` for all layers and channels of one chunk and writes it where
the engine keeps KV, in one pass: nothing of a whole layer's size stands in between. `kamera.patch.apply` is
the reference. Every kernel keeps its rules: the sum and the rotation in float32 (float64 for a float64
canonical), **one** rounding to the destination's dtype; a channel that doesn't rotate and has no patch keeps
its bytes; so do, always, the dims behind the rotary ones of a channel without a patch, and a token at the
origin when s = 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.errors import ConfigError
from kamera.patch import AnyFactors, Patch
from kamera.rope import Rope
from kamera.shapes import LayerStack


@dataclass(frozen=True, eq=False)
class FlatFactors:
    """One channel's factors as two flat buffers, each layer at a rank of its own.

    Attributes:
        u: the [T, M_l] blocks of the layers, one behind the other, row-major.
        vt: the [M_l, F] blocks, likewise.
        ranks: M_l of each layer; 0 where a layer has no patch.
    """

    u: Float[Tensor, " U"]
    vt: Float[Tensor, " V"]
    ranks: tuple[int, ...]

    @classmethod
    def of(cls, factors: AnyFactors) -> FlatFactors:
        """From a channel's factors; quantised ones become bf16, others are copied only if they must."""
        flat = factors.flat()
        return cls(flat.u_flat, flat.vt_flat, flat.ranks)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Sum of the ranks in front of each layer, and of all: L + 1 numbers.

        Layer l's block of `u` begins at element `T * starts[l]`, that of `vt` at `F * starts[l]`.
        """
        starts = [0]
        for rank in self.ranks:
            starts.append(starts[-1] + rank)
        return tuple(starts)


@dataclass(frozen=True, eq=False)
class Placement:
    """A chunk on its way to a place: everything that decides the bytes there.

    Attributes:
        canonical: the stored, un-rotated chunk.
        patch: factors in the same un-rotated frame; None relocates alone ("blind").
        positions: absolute positions of each of the chunk's T tokens, int64.
        rope: the model's rotary scheme.
        skip: the first tokens, which aren't written: the engine has them already.

    Raises:
        ConfigError: a patch of other channels or shapes than the chunk, positions of another number of
            tokens, a `skip` outside the chunk.
    """

    canonical: ChunkKV
    patch: Patch | None
    positions: Int[Tensor, "T P"]
    rope: Rope
    skip: int = 0

    def __post_init__(self) -> None:
        num_tokens = self.canonical.num_tokens
        if self.positions.shape[0] != num_tokens:
            raise ConfigError(
                f"Invalid shape of positions: expected [T={num_tokens}, P={self.rope.num_axes}], "
                f"got {list(self.positions.shape)}"
            )
        if not 0 <= self.skip <= num_tokens:
            raise ConfigError(f"Invalid skip: expected 0..T={num_tokens}, got {self.skip}")
        if self.patch is not None and set(self.patch.factors) != set(self.canonical.tensors):
            raise ConfigError(
                f"Invalid channels of patch: expected {sorted(self.canonical.tensors)}, "
                f"got {sorted(self.patch.factors)}"
            )
        for name, factors in self.factors.items():
            _check_factors(name, factors, self.canonical.tensors[name])

    @property
    def num_tokens(self) -> int:
        """Tokens that are written: T − skip."""
        return self.canonical.num_tokens - self.skip

    @cached_property
    def factors(self) -> Mapping[str, FlatFactors]:
        """Channel name -> its factors, flat; empty without a patch."""
        if self.patch is None:
            return {}
        return {name: FlatFactors.of(factors) for name, factors in self.patch.factors.items()}


@dataclass(frozen=True, eq=False)
class Pages:
    """A channel of a paged pool: where token i of the T − skip that are written goes.

    Attributes:
        layers: for each layer a view [B, S, H, D] of its cache: block, slot in the block, head, dim. Any
            strides: a layout that keeps keys transposed in a block is a view as well.
        slots: slot of each token, int64, on the layers' device: block `slot // S`, place `slot % S`. No slot
            twice.
    """

    layers: Sequence[Tensor]
    slots: Int[Tensor, " T"]

    @property
    def dtype(self) -> torch.dtype:
        """The cache dtype."""
        return self.layers[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """[L, T, H, D] of what goes in here."""
        return (len(self.layers), self.slots.numel(), *self.layers[0].shape[2:])

    def check(self, name: str) -> None:
        """Raise `ConfigError` for layers that aren't alike, or, on the CPU, a slot that they don't have."""
        first = self.layers[0]
        alike = (first.shape, first.stride(), first.dtype)
        if any((layer.shape, layer.stride(), layer.dtype) != alike for layer in self.layers):
            raise ConfigError(
                f"Invalid pages of {name}: expected layers of one shape, strides and dtype"
            )
        if self.slots.device.type != "cpu" or not self.slots.numel():
            return
        count, (low, high) = first.shape[0] * first.shape[1], self.slots.aminmax()
        if int(low) < 0 or int(high) >= count:
            raise ConfigError(
                f"Invalid slots of {name}: expected 0 to {count - 1}, got {int(low)} to {int(high)}"
            )


Destination: TypeAlias = LayerStack | Pages
"""Where a channel is written: [L, T − skip, H, D] of any strides, or pages of a pool."""


def check_destinations(placement: Placement, out: Mapping[str, Destination]) -> None:
    """What a kernel writes must fit: one that computes addresses by itself would write over other memory.

    Slots are looked at where that needs no wait for a device.

    Raises:
        ConfigError: a destination of another shape than the chunk, layers of pages that aren't alike, or a
            slot outside them.
    """
    for name, destination in out.items():
        layers, _, heads, dim = placement.canonical.tensors[name].shape
        wanted = (layers, placement.num_tokens, heads, dim)
        got: tuple[int, ...] = tuple(destination.shape)
        if got != wanted:
            raise ConfigError(
                f"Invalid destination of {name}: expected {list(wanted)} (layers, tokens, heads, dims), got "
                f"{list(got)}"
            )
        if isinstance(destination, Pages):
            destination.check(name)


@runtime_checkable
class Kernel(Protocol):
    """Relocate, patch and write: the serve step.

    `write` puts the chunk into `out`, channel name -> destination; a channel that `out` doesn't name isn't
    computed. The canonical and the destination may differ in dtype but lie on one device, and don't share
    memory. The factors are of float32, bfloat16 or float16, on that device too.
    """

    name: str

    def takes(self, placement: Placement, out: Mapping[str, Destination]) -> bool:
        """Whether this kernel computes this case; the dispatcher gives the others to `eager`."""
        ...

    def write(self, placement: Placement, out: Mapping[str, Destination]) -> None:
        """Compute and write. On an accelerator it is queued on the current stream.

        Raises:
            ConfigError: positions or a head size that don't fit the rope; on the CPU also a destination that
                doesn't fit the chunk, and a slot outside the pool.
            UnsupportedRopeError: a position beyond the reach of the rope's frequencies.
        """
        ...


def _check_factors(name: str, factors: FlatFactors, base: Tensor) -> None:
    layers, tokens, heads, dim = base.shape
    total = sum(factors.ranks)
    got = (len(factors.ranks), factors.u.numel(), factors.vt.numel())
    if got != (layers, tokens * total, heads * dim * total):
        raise ConfigError(
            f"Invalid shape of patch {name}: expected factors of [L={layers}, T={tokens}, "
            f"F={heads * dim}], got ranks of {got[0]} layers, {got[1]} numbers of u and {got[2]} of vt; "
            "the patch is of another chunk or model"
        )
    if factors.u.device != base.device:
        raise ConfigError(
            f"Invalid device of patch {name}: expected {base.device}, got {factors.u.device}"
        )
