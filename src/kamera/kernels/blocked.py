"""Plain torch, a block at a time: no float32 copy of a whole layer, scratch that is used again."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kamera.channels import Channel
from kamera.kernels.contract import Destination, Pages, Placement, check_destinations
from kamera.kernels.tables import Turn, specs_of, turns
from kamera.rope import RopeSpec

BLOCK_BYTES = 1024 * 1024
"""Of float32 in a block: what a core's second-level cache holds."""


class Blocked:
    """CPU tensors of every dtype but float64. Needs torch alone."""

    name = "blocked"

    def takes(self, placement: Placement, out: Mapping[str, Destination]) -> bool:
        """All but float64, whose sums are float64."""
        dtypes = {placement.canonical.dtype, *(d.dtype for d in out.values())}
        on_cpu = all(t.device.type == "cpu" for t in placement.canonical.tensors.values())
        return on_cpu and torch.float64 not in dtypes

    def write(self, placement: Placement, out: Mapping[str, Destination]) -> None:
        """As `Kernel.write`."""
        check_destinations(placement, out)
        channels = [channel for channel in placement.canonical.channels if channel.name in out]
        tables = turns(placement) if any(channel.rotates for channel in channels) else []
        for channel in channels:
            if placement.canonical.tensors[channel.name].numel():
                _Channel(placement, channel, tables).write(out[channel.name])


class _Channel:
    """One channel on its way, layer by layer and block by block."""

    def __init__(self, placement: Placement, channel: Channel, tables: list[Turn]) -> None:
        self.base = placement.canonical.tensors[channel.name]
        self.placement, self.rotates, self.tables = placement, channel.rotates, tables
        self.specs, self.scheme_of = specs_of(placement)
        self.factors = placement.factors.get(channel.name)
        _, _, heads, dim = self.base.shape
        self.step = max(BLOCK_BYTES // (4 * heads * dim), 1)
        scratch = (min(self.step, placement.num_tokens), heads, dim)
        self.scratch = torch.empty(scratch, dtype=torch.float32, device=self.base.device)

    def write(self, destination: Destination) -> None:
        """All layers."""
        skip, end = self.placement.skip, self.base.shape[1]
        for layer in range(self.base.shape[0]):
            for start in range(skip, end, self.step):
                stop = min(start + self.step, end)
                self._block(layer, start, stop, destination)

    def _block(self, layer: int, start: int, stop: int, destination: Destination) -> None:
        skip = self.placement.skip
        x = self._summed(layer, start, stop)
        rows = slice(start - skip, stop - skip)
        if not isinstance(destination, Pages):
            self._turn(x, layer, rows, destination[layer, rows])
            return
        placed = torch.empty(x.shape, dtype=destination.dtype, device=x.device)
        self._turn(x, layer, rows, placed)
        pages, slots = destination.layers[layer], destination.slots[rows]
        pages[slots // pages.shape[1], slots % pages.shape[1]] = placed

    def _summed(self, layer: int, start: int, stop: int) -> Tensor:
        """canonical + u @ vt, [t, H, D]: float32, or the canonical itself without a patch."""
        base = self.base[layer, start:stop]
        if self.factors is None or not self.factors.ranks[layer]:
            return base
        rank, first = self.factors.ranks[layer], self.factors.starts[layer]
        tokens, features = self.base.shape[1], base[0].numel()
        u = self.factors.u[tokens * first : tokens * (first + rank)].view(tokens, rank)
        vt = self.factors.vt[features * first : features * (first + rank)].view(rank, features)
        x = self.scratch[: stop - start]
        x.copy_(base)
        x.view(-1, features).addmm_(u[start:stop].float(), vt.float())
        return x

    def _turn(self, x: Tensor, layer: int, rows: slice, out: Tensor) -> None:
        """Turn, round once, write; x [t, H, D]."""
        if not self.rotates:
            out.copy_(x)
            return
        spec, table = self.specs[self.scheme_of[layer]], self.tables[self.scheme_of[layer]]
        cos, sin = table.cos[rows, None], table.sin[rows, None]
        one, two = _members(spec)
        first, second = x[..., one].float(), x[..., two].float()
        torch.sub(first * cos, second * sin, out=out[..., one])
        torch.add(second * cos, first * sin, out=out[..., two])
        out[..., spec.rotary_dim :] = x[..., spec.rotary_dim :]
        still = table.still[rows]
        if bool(still.any()):
            out[still] = x[still].to(out.dtype)


def _members(spec: RopeSpec) -> tuple[slice, slice]:
    if spec.layout == "pairs":
        return slice(0, spec.rotary_dim, 2), slice(1, spec.rotary_dim, 2)
    return slice(0, spec.num_pairs), slice(spec.num_pairs, spec.rotary_dim)
