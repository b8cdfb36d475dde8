"""Conditioned KV that the window holds, and where it came from.

Placed on demand, always from what is held: the KV as the model cached it, or canonical plus patch. A
placed copy is never placed again, so that slides don't add roundings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from kamera import kernels
from kamera.channels import ChunkKV
from kamera.kernels import Placement
from kamera.patch import Patch
from kamera.planner import OperatingPoint
from kamera.rope import Rope
from kamera.shapes import Positions


@runtime_checkable
class Source(Protocol):
    """Something that can give a chunk's KV at any position."""

    @property
    def like(self) -> ChunkKV:
        """KV of the chunk's shape, dtype and device, at whatever position."""

    def at(self, positions: Positions, spec: Rope) -> ChunkKV:
        """The chunk's KV, rotated to `positions`, in the cache dtype."""

    def write(self, positions: Positions, spec: Rope, out: Mapping[str, Tensor]) -> None:
        """The same bytes into `out`, [L, T, H, D] by channel, of any strides."""


@dataclass(frozen=True, eq=False)
class Cached:
    """KV as a forward cached it at `positions`. Back at the same ones its bytes are the same."""

    kv: ChunkKV
    positions: Positions

    @property
    def like(self) -> ChunkKV:
        """The KV as it is held."""
        return self.kv

    def at(self, positions: Positions, spec: Rope) -> ChunkKV:
        """Relocate through the un-rotated frame in float32: one rounding."""
        if self.positions.equal(positions):
            return self.kv
        wide = self.kv.to_canonical(self.positions, spec, wide_dtype(self.kv.dtype))
        return wide.at(positions, spec, self.kv.dtype)

    def write(self, positions: Positions, spec: Rope, out: Mapping[str, Tensor]) -> None:
        """See `Source.write`."""
        for name, tensor in self.at(positions, spec).tensors.items():
            out[name].copy_(tensor)


@dataclass(frozen=True, eq=False)
class Patched:
    """A canonical, and the patch that conditions it; None is blind."""

    canonical: ChunkKV
    patch: Patch | None

    @property
    def like(self) -> ChunkKV:
        """The canonical."""
        return self.canonical

    def at(self, positions: Positions, spec: Rope) -> ChunkKV:
        """R(p) (canonical + U Vᵀ): one rounding."""
        return kernels.place(self.canonical, self.patch, positions, spec)

    def write(self, positions: Positions, spec: Rope, out: Mapping[str, Tensor]) -> None:
        """See `Source.write`: one pass."""
        kernels.write(Placement(self.canonical, self.patch, positions, spec), out)


@dataclass(frozen=True, eq=False)
class Resident:
    """What a slot holds: the source of its KV, the antecedents it was conditioned on, how it was made.

    `point` is LEADING when it is, behind these antecedents, what re-prefill caches, rounding apart; else the
    lane that made it. `name` names it, the chunk's digest when it is exact.
    """

    source: Source
    antecedents: tuple[str, ...]
    point: OperatingPoint
    name: str

    @property
    def exact(self) -> bool:
        """Whether it is what re-prefill caches behind its antecedents."""
        return self.point is OperatingPoint.LEADING


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the un-rotated frame in passing: float32, or float64 for a float64 cache."""
    return torch.float64 if dtype == torch.float64 else torch.float32
