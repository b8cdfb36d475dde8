"""Errors of KV and logits, as one number a layer.

A key is measured whole, by the Euclidean norm of its head, over the largest such norm of its layer: a
rotation doesn't change it, so that an error made before one can be compared with an error seen behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from kamera.channels import ChunkKV


@dataclass(frozen=True)
class Outcome:
    """One check: what was found, the most that it may be, and whether it must lie above instead."""

    check: str
    error: float
    bound: float
    is_control: bool = False

    CONTROL_FACTOR = 5.0

    @property
    def ok(self) -> bool:
        """At most the bound; for a control, far above it. Never true of a NaN."""
        if self.is_control:
            return self.error > self.CONTROL_FACTOR * self.bound
        return self.error <= self.bound


def kv_error(got: ChunkKV, wanted: ChunkKV) -> Tensor:
    """[channels, L], float64."""
    rows = [
        layer_error(got.tensors[channel.name], wanted.tensors[channel.name])
        for channel in wanted.channels
    ]
    return torch.stack(rows)


def layer_error(got: Tensor, wanted: Tensor) -> Tensor:
    """[L] of two tensors [L, T, H, D]."""
    wide = wanted.double()
    off = (got.double() - wide).norm(dim=-1).flatten(1).amax(1)
    relative: Tensor = off / wide.norm(dim=-1).flatten(1).amax(1)
    return relative


def logits_error(got: Tensor, wanted: Tensor) -> float:
    """The largest over rows of logits [..., vocab], each over its own norm."""
    wide = wanted.double()
    return float(((got.double() - wide).norm(dim=-1) / wide.norm(dim=-1)).max())


def differing(got: Tensor, wanted: Tensor) -> float:
    """How many bytes differ."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return float(max(got.numel(), wanted.numel()))
    same = got.contiguous().view(torch.uint8) == wanted.contiguous().view(torch.uint8)
    return float((~same).sum())


def worst(check: str, pairs: Iterable[tuple[Tensor, Tensor]]) -> Outcome:
    """Of many errors with a bound each, the one that comes closest to its bound, or passes it furthest."""
    found = [
        (e, b)
        for errors, bounds in pairs
        for e, b in zip(_flat(errors), _flat(bounds), strict=True)
    ]
    error, bound = max(found, key=lambda pair: pair[0] / max(pair[1], 1e-300))
    return Outcome(check, error, bound)


def control(check: str, errors: Tensor, bounds: Tensor) -> Outcome:
    """A deliberate mistake, at the layer where it is seen best: one is enough to fail a check."""
    pairs = zip(_flat(errors), _flat(bounds), strict=True)
    error, bound = max(pairs, key=lambda pair: pair[0] / max(pair[1], 1e-300))
    return Outcome(f"control: {check}", error, bound, is_control=True)


def _flat(values: Tensor) -> list[float]:
    flat: list[float] = values.double().nan_to_num(nan=float("inf")).flatten().tolist()
    return flat
