"""DynamicCache <-> ChunkKV. Transformers keeps [B, H, T, D] a layer, the core [L, T, H, D].

The two tensors of a cache layer, `keys` and `values`, are the family's two channels in their order: k and v,
or for MLA c_kv (after its norm) and k_pe (after RoPE).
"""

from typing import Any

import torch

from kamera.channels import Channel, ChunkKV


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


def write(context: ChunkKV | None, channels: tuple[Channel, ...]) -> Any:
    """A new cache that holds `context`, placed KV of one sequence.

    No config is given to it: with one, sliding layers would be cut.
    """
    from transformers import DynamicCache

    cache = DynamicCache()
    if context is not None:
        for layer in range(context.num_layers):
            first, second = (
                context.tensors[channel.name][layer].transpose(0, 1)[None] for channel in channels
            )
            cache.update(first, second, layer)
    return cache
