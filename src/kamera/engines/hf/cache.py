"""DynamicCache <-> ChunkKV. Transformers keeps [B, H, T, D] a layer, the core [L, T, H, D].

The two tensors of a cache layer, `keys` and `values`, are the family's two channels in their order: k and v,
or for MLA c_kv (after its norm) and k_pe (after RoPE).

Transformers' own layer joins old and new KV into a new tensor at every step. Here the layers have room, and
what is new is written into it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from kamera.channels import Channel, ChunkKV
from kamera.engines.contract import Composed, Context

SPARE_TOKENS = 256
"""Room that is taken beyond what is needed, whenever memory is taken."""


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """`keys` and `values` are the filled part of `room`: two tensors [B, H, S, D]."""

    room: tuple[Tensor, Tensor] | None = None

    def adopt(self, first: Tensor, second: Tensor, num_tokens: int) -> None:
        """Take memory [B, H, S, D] in which the first `num_tokens` are filled."""
        self.device, self.is_initialized = first.device, True
        self.room = (first, second)
        self.keys, self.values = first[:, :, :num_tokens], second[:, :, :num_tokens]

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append; gives all of the layer's KV."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        first, second = self._room_for(end, key_states, value_states)
        first[:, :, start:end], second[:, :, start:end] = key_states, value_states
        self.keys, self.values = first[:, :, :end], second[:, :, :end]
        return self.keys, self.values

    def _room_for(self, end: int, *new: Tensor) -> tuple[Tensor, Tensor]:
        """The room, or a larger one. Also a new one when another took the place of what was filled."""
        start = self.get_seq_length()
        held = (self.keys, self.values)
        if self.room is not None and self.room[0].shape[2] >= end and _fills(held, self.room):
            return self.room
        taken = []
        for old, states in zip(held, new, strict=True):
            batch, heads, _, dim = states.shape
            larger = states.new_empty(batch, heads, end + SPARE_TOKENS, dim)
            if start:
                larger[:, :, :start] = old
            taken.append(larger)
        self.room = (taken[0], taken[1])
        return self.room


def _fills(held: tuple[Tensor, Tensor], room: tuple[Tensor, Tensor]) -> bool:
    """Whether what is held lies at the start of the room, and not elsewhere."""
    return all(h.data_ptr() == r.data_ptr() for h, r in zip(held, room, strict=True))


def room(like: ChunkKV, num_tokens: int) -> ChunkKV:
    """Uninitialised [L, S, H, D], whose memory is [L, H, S, D]: a cache layer of it is contiguous."""
    tensors = {}
    for name, tensor in like.tensors.items():
        layers, _, heads, dim = tensor.shape
        tensors[name] = tensor.new_empty(layers, heads, num_tokens, dim).transpose(1, 2)
    return ChunkKV(tensors)


def read(cache: Any, start: int, channels: tuple[Channel, ...]) -> ChunkKV:
    """The KV of the tokens from `start` on, copied out of the cache, rotated as cached."""
    return ChunkKV(
        {
            channel.name: torch.stack(
                [getattr(layer, slot)[0, :, start:].transpose(0, 1) for layer in cache.layers]
            )
            for channel, slot in zip(channels, ("keys", "values"), strict=True)
        }
    )


def write(context: Context | None, channels: tuple[Channel, ...]) -> Any:
    """A cache that holds `context`, placed KV of one sequence: a copy of a `ChunkKV`, `Composed` itself.

    No config is given to it: with one, sliding layers would be cut.
    """
    cache = DynamicCache()
    cache.layer_class_to_replicate = RoomyLayer
    if context is None:
        return cache
    if isinstance(context, ChunkKV):
        held = room(context, context.num_tokens + SPARE_TOKENS)
        for name, tensor in context.tensors.items():
            held.tensors[name][:, : context.num_tokens].copy_(tensor)
        context = Composed(held, context.num_tokens)
    for index in range(context.room.num_layers):
        layer = RoomyLayer()
        first, second = (
            context.room.tensors[channel.name][index].transpose(0, 1)[None] for channel in channels
        )
        layer.adopt(first, second, context.num_tokens)
        cache.layers.append(layer)
    return cache
