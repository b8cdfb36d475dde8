"""Relocate, patch and write on a GPU, as one Triton kernel: one launch a channel for all layers and tokens.

**Not run on a GPU yet.** It is tested on CPU tensors in Triton's interpreter, and it compiles for NVIDIA's
and AMD's targets. Like `kamera.patch.apply` it keeps the sum and the rotation in float32 and rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from kamera.errors import ConfigError
from kamera.kernels.contract import Destination, Pages, Placement
from kamera.kernels.tables import specs_of, turns
from kamera.kernels.triton_interpreter import interpreting, mend
from kamera.kernels.triton_tile import LAYER_COLUMNS, apply_tile
from kamera.rope import PerLayerRope, Rope, RopeSpec

_DTYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
_ALIGN = 16
"""Bytes of the widest load."""


@dataclass(frozen=True)
class Tile:
    """What one step of one program takes at most; powers of two, at least 16, since `tl.dot` takes no less.

    The largest are chosen by what the compiler says for sm_80 and sm_90: nothing is spilled, and with 16-bit
    factors three tiles fit an SM.
    """

    tokens: int
    pairs: int
    dims: int
    ranks: int

    @classmethod
    def of(cls, num_tokens: int, dim: int, num_pairs: int, rank: int) -> Tile:
        """For heads of `dim` of which `num_pairs` pairs rotate, and this highest rank."""
        sizes = ((num_tokens, 32), (num_pairs, 64), (dim - 2 * num_pairs, 64), (rank, 32))
        return cls(*(min(most, max(16, triton.next_power_of_2(n))) for n, most in sizes))

    def constants(self) -> dict[str, int]:
        """As the device code names them."""
        return {
            "BLOCK_T": self.tokens,
            "BLOCK_N": self.pairs,
            "BLOCK_D": self.dims,
            "BLOCK_M": self.ranks,
        }


class TritonKernel:
    """Paged and contiguous destinations in float32, bfloat16 and float16, on CUDA and ROCm devices.

    A token whose slot is -1 isn't written, as in vLLM. CPU tensors are taken only in Triton's interpreter
    (TRITON_INTERPRET=1 before Triton is imported): for tests, thousands of times slower.
    """

    name = "triton"

    def __init__(self) -> None:
        if interpreting():
            mend()

    def takes(self, placement: Placement, out: Mapping[str, Destination]) -> bool:
        """No float64; a pool whose layers are alike in shape, strides and dtype."""
        canonical = placement.canonical
        device = next(iter(canonical.tensors.values())).device
        if device.type != ("cpu" if interpreting() else "cuda"):
            return False
        dtypes = {canonical.dtype, *(destination.dtype for destination in out.values())}
        return dtypes <= set(_DTYPES) and all(
            _alike(destination.layers)
            for destination in out.values()
            if isinstance(destination, Pages)
        )

    def write(self, placement: Placement, out: Mapping[str, Destination]) -> None:
        """As `Kernel.write`: one launch for each channel and each number of rotated pairs."""
        rotates = {channel.name: channel.rotates for channel in placement.canonical.channels}
        for name, destination in out.items():
            source = placement.canonical.tensors[name]
            groups = _rotating(placement, source) if rotates[name] else [_still(len(source))]
            for group in groups:
                if placement.num_tokens:
                    _launch(placement, name, destination, group)


@dataclass(frozen=True, eq=False)
class _Group:
    """Layers that rotate the same dims, one launch.

    Attributes:
        layers: their indices.
        tables: for each the index of its angle table.
        cos: float32 [tables, T − skip, N], times the attention factor; None when N = 0. `sin` likewise.
        num_pairs: N.
        paired: whether pair i is at 2i and 2i + 1, rather than at i and i + N.
    """

    layers: tuple[int, ...]
    tables: tuple[int, ...]
    cos: Tensor | None = None
    sin: Tensor | None = None
    num_pairs: int = 0
    paired: bool = False


def _still(num_layers: int) -> _Group:
    """All layers of a channel that doesn't rotate."""
    return _Group(tuple(range(num_layers)), (0,) * num_layers)


def _rotating(placement: Placement, source: Tensor) -> Iterator[_Group]:
    """The layers of a channel that rotates, by what they rotate."""
    _check_rope(placement.rope, source)
    specs, scheme_of = specs_of(placement)
    tables = turns(placement)
    for kind in dict.fromkeys(map(_kind, specs)):
        members = [index for index, spec in enumerate(specs) if _kind(spec) == kind]
        layers = tuple(layer for layer, index in enumerate(scheme_of) if index in members)
        yield _Group(
            layers,
            tuple(members.index(scheme_of[layer]) for layer in layers),
            torch.stack([tables[index].cos for index in members]).to(source.device),
            torch.stack([tables[index].sin for index in members]).to(source.device),
            kind[0],
            kind[1] == "pairs",
        )


def _kind(spec: RopeSpec) -> tuple[int, str]:
    return spec.num_pairs, spec.layout


def _check_rope(rope: Rope, source: Tensor) -> None:
    num_layers = rope.num_layers if isinstance(rope, PerLayerRope) else source.shape[0]
    if (source.shape[0], source.shape[3]) != (num_layers, rope.head_dim):
        raise ConfigError(
            f"Invalid shape of the canonical's keys: expected [L={num_layers}, T, H, "
            f"D={rope.head_dim}] as the rope's, got {list(source.shape)}"
        )


def _launch(placement: Placement, name: str, destination: Destination, group: _Group) -> None:
    source = placement.canonical.tensors[name]
    num_heads, dim = source.shape[2:]
    zeros = (0,) * source.shape[0]
    factors = placement.factors.get(name)
    if factors is not None and not any(factors.ranks):
        factors = None
    ranks, starts = (factors.ranks, factors.starts) if factors else (zeros, zeros)
    pages = _pages(destination)
    addresses = [pages.layers[layer].data_ptr() for layer in group.layers]
    rows = [
        (address, layer, ranks[layer], starts[layer], table)
        for address, layer, table in zip(addresses, group.layers, group.tables, strict=True)
    ]
    tile = Tile.of(placement.num_tokens, dim, group.num_pairs, max(ranks))
    grid = (triton.cdiv(placement.num_tokens, tile.tokens), num_heads, len(rows))
    with _on(source.device):
        apply_tile[grid](
            source,
            torch.tensor(rows, dtype=torch.int64).to(source.device, non_blocking=True),
            pages.slots,
            factors.u if factors else None,
            factors.vt if factors else None,
            group.cos,
            group.sin,
            placement.num_tokens,
            placement.skip,
            pages.layers[0].shape[1],
            num_heads * dim,
            *source.stride(),
            *pages.layers[0].stride(),
            DST=_DTYPES[destination.dtype],
            DST_ALIGN=math.gcd(_ALIGN, *addresses),
            RANK_ALIGN=math.gcd(_ALIGN, *ranks),
            COLUMNS=LAYER_COLUMNS,
            HEAD_DIM=dim,
            NUM_PAIRS=group.num_pairs,
            PAIRED=group.paired,
            **tile.constants(),
        )


@dataclass(frozen=True)
class _Paged:
    """Any destination as the device code takes it: without slots, a token is a block of one."""

    layers: Sequence[Tensor]
    slots: Tensor | None


def _pages(destination: Destination) -> _Paged:
    if isinstance(destination, Pages):
        return _Paged(destination.layers, destination.slots.contiguous())
    return _Paged(destination.unsqueeze(2).unbind(0), None)


def _alike(layers: Sequence[Tensor]) -> bool:
    return len({(layer.shape, layer.stride(), layer.dtype) for layer in layers}) == 1


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """Triton launches on the current device, which needn't be the tensors'."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
