"""The reference: `kamera.patch.apply`, whole layers at a time, then a copy to where it goes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.kernels.contract import Destination, Pages, Placement, check_destinations
from kamera.patch import apply


class Eager:
    """Plain torch on any device and dtype. What the other kernels are tested against."""

    name = "eager"

    def takes(self, placement: Placement, out: Mapping[str, Destination]) -> bool:
        """Everything."""
        return True

    def write(self, placement: Placement, out: Mapping[str, Destination]) -> None:
        """As `Kernel.write`."""
        check_destinations(placement, out)
        by_dtype: dict[torch.dtype, ChunkKV] = {}
        for name, destination in out.items():
            dtype = destination.dtype
            if dtype not in by_dtype:
                by_dtype[dtype] = apply(
                    placement.canonical, placement.patch, placement.positions, placement.rope, dtype
                )
            scatter(by_dtype[dtype].tensors[name][:, placement.skip :], destination)


def scatter(placed: Tensor, destination: Destination) -> None:
    """Copy [L, T, H, D] to where it goes."""
    if not isinstance(destination, Pages):
        destination.copy_(placed)
        return
    size = destination.layers[0].shape[1]
    blocks, inside = destination.slots // size, destination.slots % size
    for layer, values in zip(destination.layers, placed, strict=True):
        layer[blocks, inside] = values
