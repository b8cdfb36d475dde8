"""DynamicCache <-> ChunkKV. Transformers keeps [B, H, T, D] a layer, the core [L, T, H, D]."""

from typing import Any

import torch

from kamera.channels import ChunkKV


def read(cache: Any, start: int) -> ChunkKV:
    """The KV of the tokens from `start` on, copied out of the cache, rotated as cached."""
    return ChunkKV(
        {
            "k": torch.stack([layer.keys[0, :, start:].transpose(0, 1) for layer in cache.layers]),
            "v": torch.stack(
                [layer.values[0, :, start:].transpose(0, 1) for layer in cache.layers]
            ),
        }
    )


def write(context: ChunkKV | None) -> Any:
    """A new cache that holds `context`, placed KV of one sequence.

    No config is given to it: with one, sliding layers would be cut.
    """
    from transformers import DynamicCache

    cache = DynamicCache()
    if context is not None:
        for layer in range(context.num_layers):
            keys, values = (context.tensors[name][layer] for name in ("k", "v"))
            cache.update(keys.transpose(0, 1)[None], values.transpose(0, 1)[None], layer)
    return cache
