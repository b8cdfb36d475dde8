"""`Pool`: a chunk's KV in and out of the engine's blocks.

Writing goes through each layer's own cache update. Reading has no such call, and how a block lies in memory
is the backend's business (the CPU backend transposes keys inside a block). So the layout is **measured**:
numbers that name their own place are written into the null block, and where they turn up is where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.errors import UnsupportedModelError

NULL_BLOCK = 0
"""The block that vLLM hands to no request."""
BASE = 128
"""Digits below this are exact in every cache dtype that is served."""


@dataclass(frozen=True)
class Shapes:
    """What one token has in one layer: channel name -> [H, D]."""

    channels: Mapping[str, tuple[int, int]]

    @property
    def per_token(self) -> int:
        """Numbers of one token in one layer."""
        return sum(heads * size for heads, size in self.channels.values())


class Pool:
    """The KV of one worker's layers. `layers` are vLLM's attention layers, in the model's order.

    `block_size` is that of a request's block ids; the cache may be in smaller blocks (`inner`), which number
    the same slots.

    Raises:
        UnsupportedModelError: a cache dtype or a block layout that can't be read.
    """

    def __init__(self, layers: Sequence[Any], shapes: Shapes, block_size: int) -> None:
        self.layers, self.shapes, self.block_size = list(layers), shapes, block_size
        cache = layers[0].kv_cache
        if cache.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise UnsupportedModelError(
                f"a KV cache of {cache.dtype} can't be composed: expected float32, bfloat16 or float16"
            )
        self.dtype, self.device = cache.dtype, cache.device
        self._inner = self._inner_size(cache)
        self._places = self._measure()
        self._check()

    def write(self, kv: ChunkKV, slots: Tensor) -> None:
        """Write a chunk, placed, into slots [T] of every layer."""
        for index, layer in enumerate(self.layers):
            self._update(layer, {n: t[index] for n, t in kv.tensors.items()}, slots)

    def read(self, slots: Tensor) -> ChunkKV:
        """The KV of slots [T], copied, as the engine cached it."""
        blocks, inverse = torch.unique(slots // self._inner, return_inverse=True)
        inside = slots % self._inner
        found: dict[str, list[Tensor]] = {name: [] for name in self.shapes.channels}
        for layer in self.layers:
            flat = self._flat(layer.kv_cache, blocks)
            for name in found:
                places = self._places[name][inside]
                found[name].append(flat[inverse[:, None, None], places])
        return ChunkKV({name: torch.stack(tensors) for name, tensors in found.items()})

    def slots(self, blocks: Sequence[int], begin: int, end: int) -> Tensor:
        """The slots of a request's tokens [begin, end), int64."""
        table = torch.tensor(blocks, device=self.device)
        tokens = torch.arange(begin, end, device=self.device)
        return table[tokens // self.block_size] * self.block_size + tokens % self.block_size

    def _inner_size(self, cache: Tensor) -> int:
        """Tokens of one block of the cache, whose first dimension is the block's."""
        inner, rest = divmod(cache[NULL_BLOCK].numel(), self.shapes.per_token)
        if rest or not inner or self.block_size % inner:
            raise UnsupportedModelError(
                f"a block of the cache, shape {list(cache.shape)}, isn't a whole part of {self.block_size} "
                f"tokens of {self.shapes.per_token} numbers: its first dimension isn't the block's"
            )
        return inner

    def _flat(self, cache: Tensor, blocks: Tensor) -> Tensor:
        """[blocks, numbers] of one layer, a copy. The block dimension is the first."""
        return cache[blocks].reshape(len(blocks), -1)

    def _update(self, layer: Any, tensors: Mapping[str, Tensor], slots: Tensor) -> None:
        wide = {name: t.to(self.device, self.dtype) for name, t in tensors.items()}
        if "c_kv" in wide:
            layer.impl.do_kv_cache_update(
                wide["c_kv"].squeeze(1).contiguous(),
                wide["k_pe"].contiguous(),
                layer.kv_cache,
                slots,
                layer.kv_cache_dtype,
                layer._k_scale,
            )
        else:
            k, v = wide["k"].contiguous(), wide["v"].contiguous()
            layer.impl.do_kv_cache_update(layer, k, v, layer.kv_cache, slots)

    def _measure(self) -> dict[str, Tensor]:
        """For each channel where [slot in block, H, D] lies in a block's flat memory."""
        layer = self.layers[0]
        block = torch.tensor([NULL_BLOCK], device=self.device)
        slots = torch.arange(self._inner, device=self.device)
        kept = layer.kv_cache[NULL_BLOCK].clone()
        count = self._inner * self.shapes.per_token
        named = torch.arange(count, device=self.device)
        seen = torch.zeros(count, dtype=torch.int64, device=self.device)
        digit = 1
        while digit < count:
            self._update(layer, self._split(named // digit % BASE), slots)
            seen += self._flat(layer.kv_cache, block)[0].long() * digit
            digit *= BASE
        layer.kv_cache[NULL_BLOCK] = kept
        if not bool(seen.sort().values.equal(named)):
            raise UnsupportedModelError(
                "the numbers of a block aren't where they were written: this cache can't be read back"
            )
        return self._split(seen.argsort())

    def _split(self, numbers: Tensor) -> dict[str, Tensor]:
        """[inner * per_token] -> channel -> [inner, H, D]."""
        tensors, at = {}, 0
        for name, (heads, size) in self.shapes.channels.items():
            count = self._inner * heads * size
            tensors[name] = numbers[at : at + count].view(self._inner, heads, size)
            at += count
        return tensors

    def _check(self) -> None:
        """Write and read random KV once in every layer: it must come back bit for bit."""
        slots = torch.arange(self._inner, device=self.device)
        kept = [layer.kv_cache[NULL_BLOCK].clone() for layer in self.layers]
        generator = torch.Generator().manual_seed(0)
        shape = {n: (len(kept), self._inner, *s) for n, s in self.shapes.channels.items()}
        drawn = {n: torch.randn(s, generator=generator).to(self.dtype) for n, s in shape.items()}
        self.write(ChunkKV(drawn), slots)
        back = self.read(slots)
        for layer, block in zip(self.layers, kept, strict=True):
            layer.kv_cache[NULL_BLOCK] = block
        wrong = [n for n, t in drawn.items() if not t.equal(back.tensors[n].cpu())]
        if wrong:
            raise UnsupportedModelError(
                f"KV written into a block doesn't come back bit for bit ({', '.join(wrong)}): this cache "
                "can't be read"
            )
