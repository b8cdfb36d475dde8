"""The compiled CPU kernel: Numba's loops around a block of vector code, in as many threads as torch uses."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kamera.channels import Channel
from kamera.kernels import loops
from kamera.kernels.contract import Destination, Pages, Placement, check_destinations
from kamera.kernels.plan import Field, Kind, Row, panels
from kamera.kernels.tables import Turn, specs_of, turns
from kamera.kernels.vector_code import HAS_DOT, HAS_HALF, WIDTH, stream_bytes

_FORMATS = {torch.bfloat16: np.uint16, torch.float32: np.float32}
if HAS_HALF:
    _FORMATS[torch.float16] = np.int16
_TAGS = {dtype: np.empty(0, number) for dtype, number in _FORMATS.items()}
_MIN_BYTES = 256 * 1024
"""Bytes of KV below which a second thread costs more than it brings."""
_STREAM_BYTES = 16 * 1024 * 1024
"""Bytes of a channel from which on it is written past the cache, which it would flush."""


class Compiled:
    """Numba on CPU: bfloat16, float16 and float32."""

    name = "numba"

    def takes(self, placement: Placement, out: Mapping[str, Destination]) -> bool:
        """CPU tensors of a cache dtype whose dims lie side by side."""
        for name, destination in out.items():
            base = placement.canonical.tensors[name]
            if base.device.type != "cpu" or base.dtype not in _TAGS or base.stride(3) != 1:
                return False
            if destination.dtype not in _TAGS:
                return False
            if placement.patch and max(placement.factors[name].ranks, default=0) > loops.MAX_RANK:
                return False
        return True

    def write(self, placement: Placement, out: Mapping[str, Destination]) -> None:
        """As `Kernel.write`."""
        check_destinations(placement, out)
        if not placement.num_tokens:
            return
        channels = [channel for channel in placement.canonical.channels if channel.name in out]
        tables = turns(placement) if any(channel.rotates for channel in channels) else []
        held: list[Any] = [tables]
        calls = [
            _call(placement, channel, out[channel.name], tables if channel.rotates else None, held)
            for channel in channels
        ]
        _run(calls, placement.num_tokens, _threads(placement))


class _Scratch(threading.local):
    """Memory of one thread."""

    def __init__(self) -> None:
        self.buffer = np.empty(loops.SCRATCH_BYTES + 64, np.uint8)

    @property
    def address(self) -> int:
        return -(-self.buffer.ctypes.data // 64) * 64


_scratch = _Scratch()


def _threads(placement: Placement) -> int:
    if placement.canonical.num_bytes < _MIN_BYTES:
        return 1
    return min(
        torch.get_num_threads(), max(placement.num_tokens // loops.TILE, 1), os.cpu_count() or 1
    )


def _run(calls: list[tuple[Any, ...]], num_tokens: int, num_threads: int) -> None:
    """Each thread takes a range of the tokens, of every channel and layer."""
    share = -(-num_tokens // num_threads)
    share = -(-share // loops.TOKENS) * loops.TOKENS
    spans = [(t, min(t + share, num_tokens)) for t in range(0, num_tokens, share)]
    futures = [_workers(os.getpid()).submit(_one, calls, span) for span in spans[1:]]
    try:
        _one(calls, spans[0])
        wait(futures)
    except (
        BaseException
    ):  # an interrupt: the others still read and write what the caller lets go of
        wait(futures)
        raise
    for future in futures:
        future.result()


def _one(calls: list[tuple[Any, ...]], span: tuple[int, int]) -> None:
    for arguments in calls:
        loops.write(loops.STAMP, *arguments, span, _scratch.address)


@lru_cache(maxsize=1)
def _workers(process: int) -> ThreadPoolExecutor:
    """The threads of this process: a fork has none of its parent's."""
    return ThreadPoolExecutor(os.cpu_count() or 1, "kamera-apply")


def _call(
    placement: Placement,
    channel: Channel,
    destination: Destination,
    tables: list[Turn] | None,
    held: list[Any],
) -> tuple[Any, ...]:
    """The arguments of `loops.write` but for the span and the scratch."""
    base = placement.canonical.tensors[channel.name]
    size = base.element_size()
    specs, scheme_of = specs_of(placement)
    layers, rows, strides = _target(destination)
    row = Row(base.shape[2], base.shape[3], base.stride(2) * size, size, strides[0], strides[1])
    if tables is None:
        made = [panels(row, None, WIDTH)]
        scheme_of = [0] * len(scheme_of)
        turning = np.zeros((1, 4), np.int64)
        still = np.zeros(placement.num_tokens, np.uint8)
        turning[0, 2] = still.ctypes.data
        held.append(still)
    else:
        made = [panels(row, spec, WIDTH) for spec in specs]
        turning = _turning(tables)
    plans = np.concatenate(made)
    first = np.cumsum([0, *(len(p) for p in made)])
    factors, tag = _factors(placement, channel.name, base, held)
    source = (
        base.data_ptr() + placement.skip * base.stride(1) * size,
        base.stride(0) * size,
        base.stride(1) * size,
    )
    return (
        _TAGS[base.dtype],
        _TAGS[destination.dtype],
        tag,
        base.dtype == destination.dtype,
        _streams(destination, layers, rows, strides[1], plans),
        source,
        (layers, rows, strides[1]),
        plans,
        (first, np.array(scheme_of, np.int64)),
        turning,
        factors,
    )


def _streams(destination: Destination, layers: Any, rows: Any, dim: int, plans: Any) -> bool:
    """Whether to write past the cache: much, and every vector aligned to its size."""
    size = _TAGS[destination.dtype].itemsize
    if dim != 1 or len(layers) * len(rows) * len(plans) * 4 * WIDTH * size < _STREAM_BYTES:
        return False
    whole = plans[plans[:, Field.ALIKE] > 0]
    runs = whole[:, Field.OUT : Field.OUT + 4]
    in_pairs = whole[:, Field.KIND] == Kind.PAIRS
    side_by_side = in_pairs | (runs[:, 1::2] - runs[:, ::2] == WIDTH).all(axis=1)
    places = (layers, rows * size, runs[:, ::2][~in_pairs] * size, runs[:, :2][in_pairs] * size)
    line = stream_bytes(size)
    return bool(side_by_side.all()) and not any((place % line).any() for place in places)


def _turning(tables: list[Turn]) -> Any:
    return np.array(
        [
            [t.cos.data_ptr(), t.sin.data_ptr(), t.still.data_ptr(), t.cos.stride(0) * 4]
            for t in tables
        ],
        np.int64,
    )


def _target(destination: Destination) -> tuple[Any, Any, tuple[int, int]]:
    if isinstance(destination, Pages):
        first = destination.layers[0]
        strides = first.stride()
        slots = destination.slots.numpy()
        block, inside = np.divmod(slots, first.shape[1])
        rows = block * strides[0] + inside * strides[1]
        pointers = np.array([layer.data_ptr() for layer in destination.layers], np.int64)
        return pointers, rows, (strides[2], strides[3])
    strides = destination.stride()
    size = destination.element_size()
    pointers = destination.data_ptr() + np.arange(destination.shape[0]) * strides[0] * size
    rows = np.arange(destination.shape[1]) * strides[1]
    return pointers, rows, (strides[2], strides[3])


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
