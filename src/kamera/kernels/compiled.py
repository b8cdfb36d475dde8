"""The compiled CPU kernel: Numba's loops around a block of vector code, on the threads that torch uses."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kamera.channels import Channel
from kamera.kernels import loops
from kamera.kernels.block_code import TOKENS
from kamera.kernels.carry_code import LINE, MOVE_BYTES, MOVE_WORDS
from kamera.kernels.contract import Destination, Pages, Placement, check_destinations
from kamera.kernels.plan import Row, panels
from kamera.kernels.tables import Turn, specs_of, turns
from kamera.kernels.team import in_pool, parallel_address
from kamera.kernels.vector_code import HAS_DOT, HAS_HALF, WIDTH
from kamera.rope import RopeSpec

_FORMATS = {torch.bfloat16: np.uint16, torch.float32: np.float32}
if HAS_HALF:
    _FORMATS[torch.float16] = np.int16
_TAGS = {dtype: np.empty(0, number) for dtype, number in _FORMATS.items()}
_MIN_BYTES = 256 * 1024
"""Bytes of KV below which a second thread costs more than it brings."""
_CORES = os.cpu_count() or 1
_ITEMS_A_THREAD = 4
"""Pieces of work a thread, so that one that is late has less to do."""
_STREAM_BYTES = 16 * 1024 * 1024
"""Bytes of a channel from which on it is written past the cache, which it would flush."""


class Compiled:
    """Numba on CPU: bfloat16, float16 and float32."""

    name = "numba"

    def takes(self, placement: Placement, out: Mapping[str, Destination]) -> bool:
        """CPU tensors of a cache dtype whose dims lie side by side."""
        for name, destination in out.items():
            base = placement.canonical.tensors[name]
            first = destination.layers[0] if isinstance(destination, Pages) else destination
            if {base.device.type, first.device.type} != {"cpu"} or base.stride(3) != 1:
                return False
            if not {base.dtype, first.dtype} <= _TAGS.keys():
                return False
        return True

    def write(self, placement: Placement, out: Mapping[str, Destination]) -> None:
        """As `Kernel.write`."""
        check_destinations(placement, out)
        if not placement.num_tokens:
            return
        canonical = placement.canonical
        channels = [
            channel
            for channel in canonical.channels
            if channel.name in out and canonical.tensors[channel.name].numel()
        ]
        tables = turns(placement) if any(channel.rotates for channel in channels) else []
        num_threads = _threads(placement)
        for channel in channels:
            held: list[Any] = [tables]
            turned = tables if channel.rotates else None
            call = _call(placement, channel, out[channel.name], turned, held)
            _run(call, placement.num_tokens, num_threads)


@dataclass(frozen=True)
class _Call:
    """One channel: the arguments of `loops.write` up to the work, and where the parts of a scratch begin."""

    arguments: tuple[Any, ...]
    num_layers: int
    parts: tuple[int, int, int, int]


class _Scratch(threading.local):
    """Memory for the threads of one caller."""

    def __init__(self) -> None:
        self.buffer = np.empty(0, np.uint8)

    def of(self, num_bytes: int) -> int:
        """The address of so many bytes, on a cache line."""
        if len(self.buffer) < num_bytes + LINE:
            self.buffer = np.empty(num_bytes + LINE, np.uint8)
        return -(-self.buffer.ctypes.data // LINE) * LINE


_scratch = _Scratch()


def _threads(placement: Placement) -> int:
    if placement.canonical.num_bytes < _MIN_BYTES:
        return 1
    return min(torch.get_num_threads(), _CORES)


def _run(call: _Call, num_tokens: int, num_threads: int) -> None:
    """Each thread takes layers, or some tokens of one, until all are done."""
    pieces = -(-num_threads * _ITEMS_A_THREAD // call.num_layers) if num_threads > 1 else 1
    span = -(-num_tokens // (pieces * TOKENS)) * TOKENS
    counters = np.zeros(2, np.int64)
    crew = (counters.ctypes.data, _scratch.of(num_threads * call.parts[3]), call.parts)
    arguments = (loops.STAMP, *call.arguments, (num_tokens, span), crew)
    parallel = parallel_address() if num_threads > 1 else 0
    if parallel or num_threads == 1:
        loops.write(*arguments, (parallel, num_threads))
        return
    in_pool(partial(loops.write, *arguments, (0, 1)), num_threads)


def _call(
    placement: Placement,
    channel: Channel,
    destination: Destination,
    tables: list[Turn] | None,
    held: list[Any],
) -> _Call:
    """The channel's call; what it has addresses of and doesn't hold is put into `held`."""
    base = placement.canonical.tensors[channel.name]
    size = base.element_size()
    num_layers, _, heads, dim = base.shape
    row = Row(heads, dim, base.stride(2) * size, size)
    if tables is None:
        specs: tuple[RopeSpec | None, ...] = (None,)
        scheme_of = (0,) * num_layers
        still = np.zeros(placement.num_tokens, np.uint8)
        turning = np.array([[0, 0, still.ctypes.data, 0]])
        held.append(still)
    else:
        specs, layers = specs_of(placement)
        scheme_of, turning = tuple(layers), _turning(tables)
    planned = _planned(row, specs, scheme_of)
    factors, tag = _factors(placement, channel.name, base, held)
    source = (
        base.data_ptr() + placement.skip * base.stride(1) * size,
        base.stride(0) * size,
        base.stride(1) * size,
    )
    target = _target(destination, heads, dim)
    parts = loops.scratch_bytes(planned.most, int(factors[2].max()), heads * dim)
    arguments = (
        _TAGS[base.dtype],
        _TAGS[destination.dtype],
        tag,
        base.dtype == destination.dtype,
        _streams(destination, target),
        source,
        target,
        planned.panels,
        planned.schemes,
        turning,
        factors,
        _base_lines(row, base.stride(1) * size),
    )
    return _Call(arguments, num_layers, parts)


@dataclass(frozen=True)
class _Planned:
    """The panels of all schemes, first panel of each and scheme of each layer, most panels of one scheme."""

    panels: NDArray[np.int64]
    schemes: tuple[NDArray[np.int64], NDArray[np.int64]]
    most: int


@lru_cache(maxsize=64)
def _planned(row: Row, specs: tuple[RopeSpec | None, ...], scheme_of: tuple[int, ...]) -> _Planned:
    made = [panels(row, spec, WIDTH) for spec in specs]
    first = np.cumsum([0, *(len(p) for p in made)])
    schemes = (first, np.array(scheme_of, np.int64))
    return _Planned(np.concatenate(made), schemes, max(len(p) for p in made))


@lru_cache(maxsize=64)
def _base_lines(row: Row, base_row: int) -> NDArray[np.int64]:
    """Offsets of the cache lines of a block's canonical, in the order in which they lie in memory."""
    heads, dim = (1, row.heads * row.dim) if row.is_flat else (row.heads, row.dim)
    run = dim * row.base_dim
    pieces = [h * row.base_head + t * base_row for h in range(heads) for t in range(TOKENS)]
    if row.is_flat and base_row == run:
        pieces, run = [0], TOKENS * run
    return np.array([at + line for at in pieces for line in range(0, run, LINE)], np.int64)


def _streams(destination: Destination, target: tuple[Any, ...]) -> bool:
    """Whether to write past the cache: much, and every vector aligned to its size."""
    layers, rows, runs, run, _, moves = target
    size = _TAGS[destination.dtype].itemsize
    if not len(moves) or len(layers) * len(rows) * runs * run * size < _STREAM_BYTES:
        return False
    places = (layers, rows * size, moves[:, 2])
    return not any((place % MOVE_BYTES).any() for place in places)


def _turning(tables: list[Turn]) -> Any:
    return np.array(
        [
            [t.cos.data_ptr(), t.sin.data_ptr(), t.still.data_ptr(), t.cos.stride(0) * 4]
            for t in tables
        ],
        np.int64,
    )


def _target(destination: Destination, heads: int, dim: int) -> tuple[Any, ...]:
    """As `loops.write`: layers, tokens, runs and their size, strides of runs and dims, moves."""
    if isinstance(destination, Pages):
        first = destination.layers[0]
        strides = first.stride()
        block, inside = np.divmod(destination.slots.numpy().astype(np.int64), first.shape[1])
        rows = block * strides[0] + inside * strides[1]
        layers = np.array([layer.data_ptr() for layer in destination.layers], np.int64)
    else:
        strides = destination.stride()
        step = strides[0] * destination.element_size()
        layers = destination.data_ptr() + np.arange(destination.shape[0]) * step
        rows = np.arange(destination.shape[1]) * strides[1]
    runs, run, between = heads, dim, (strides[2], strides[3])
    if strides[2] == dim * strides[3]:
        runs, run = 1, heads * dim
    moves = _moves(runs, run, strides[2], _TAGS[destination.dtype].itemsize, strides[3])
    return layers, rows, runs, run, between, moves


@lru_cache(maxsize=64)
def _moves(runs: int, run: int, stride: int, size: int, dim: int) -> NDArray[np.int64]:
    """The vectors of a block in the order in which they are written: see `carry_code`.

    The last of a run may overlap the one before it.
    """
    run_bytes = run * size
    if dim != 1 or run_bytes < MOVE_BYTES:
        return np.zeros((0, MOVE_WORDS), np.int64)
    places = [*range(0, run_bytes - MOVE_BYTES + 1, MOVE_BYTES)]
    if run_bytes % MOVE_BYTES:
        places.append(run_bytes - MOVE_BYTES)
    return np.array(
        [
            ((t * runs + r) * run_bytes + place, t, r * stride * size + place)
            for r in range(runs)
            for t in range(TOKENS)
            for place in places
        ],
        np.int64,
    )


def _factors(placement: Placement, name: str, base: Tensor, held: list[Any]) -> tuple[Any, Any]:
    num_layers, num_tokens, heads, dim = base.shape
    none = np.zeros(num_layers, np.int64)
    if not placement.patch:
        return (0, 0, none, none, none, heads * dim), _TAGS[torch.float32]
    flat = placement.factors[name]
    u, vt = flat.u, flat.vt
    if u.dtype != torch.bfloat16 or not HAS_DOT:
        u, vt = u.float(), vt.float()
    starts = np.array(flat.starts, np.int64)
    ranks = np.diff(starts)
    u_starts = num_tokens * starts[:-1] + placement.skip * ranks
    vt_starts = heads * dim * starts[:-1]
    held += [u, vt]
    made = (u.data_ptr(), vt.data_ptr(), ranks, u_starts, vt_starts, heads * dim)
    return made, _TAGS[u.dtype]
