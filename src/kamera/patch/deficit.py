"""The deficit Δ = KV(B given A) − KV(B given nothing): what blind reuse drops (paper §2)."""

from collections.abc import Mapping
from typing import TypeAlias

import torch

from kamera.channels import ChunkKV
from kamera.errors import ConfigError
from kamera.shapes import Deficit

Deficits: TypeAlias = dict[str, Deficit]
"""Channel name -> Δ, float32 [L, T, F]."""


def deficit(conditioned: ChunkKV, canonical: ChunkKV) -> Deficits:
    """Δ of each channel in the un-rotated frame, heads flattened into F = H·D features.

    Both chunks are canonical (un-rotated) KV of the same tokens: `conditioned` is KV(B given A),
    best un-rotated with `to_canonical(..., out_dtype=torch.float32)`, so that nothing is rounded
    between the cache and Δ; `canonical` is the stored KV(B given nothing), **in the dtype it is
    stored in**, so that a full-rank patch also gives back what storing it rounded away. The
    un-rotated frame makes Δ position-free: the patch moves with the chunk.

    The removal patch (paper §5, deepstack survivors) is the same thing the other way round:
    `deficit(target, kept)`, with KV(B given what stays) as `target` and the survivor's own
    conditioned KV as `kept`; fit it and apply it to `kept`.

    Returns:
        float32 (the difference itself is taken in the wider of the two dtypes and float32).

    Raises:
        ConfigError: the chunks differ in channels, shape or device.
    """
    if set(conditioned.tensors) != set(canonical.tensors):
        raise ConfigError(
            f"Invalid channels of conditioned: expected {sorted(canonical.tensors)}, "
            f"got {sorted(conditioned.tensors)}"
        )
    return {
        channel.name: _difference(conditioned.tensors, canonical.tensors, channel.name)
        for channel in canonical.channels
    }


def _difference(
    conditioned: Mapping[str, torch.Tensor], canonical: Mapping[str, torch.Tensor], name: str
) -> Deficit:
    target, base = conditioned[name], canonical[name]
    if target.shape != base.shape or target.device != base.device:
        raise ConfigError(
            f"Invalid shape of conditioned {name}: expected {list(base.shape)} on {base.device}, "
            f"got {list(target.shape)} on {target.device}"
        )
    wide = torch.promote_types(torch.promote_types(target.dtype, base.dtype), torch.float32)
    return (target.to(wide) - base.to(wide)).to(torch.float32).flatten(2)
