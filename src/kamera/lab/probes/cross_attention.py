"""B's attention to A in re-prefill, layer by layer: what landmark keys and the cross-mass selector read."""

from __future__ import annotations

import torch
from torch import Tensor

from kamera.lab.probes.case import Case


def cross_attention(case: Case) -> list[Tensor]:
    """By layer, the softmax weights of B's tokens on A's: float32 [Q, B, A]. B's rows sum to less than 1."""
    chunks = case.chunks[: case.target + 1]
    bench = case.bench
    full = bench.full(chunks).kv
    start, end = case.span
    rows = torch.arange(full.num_tokens) >= start
    found: dict[int, Tensor] = {}

    def look(layer: int, weights: Tensor) -> None:
        found[layer] = weights[:, :, :start].cpu()

    bench.open.recompute(
        chunks,
        bench.vision(chunks),
        full,
        rows,
        lambda layer, fresh, held: torch.ones(end - start, dtype=torch.bool),
        observe=look,
    )
    return [found[layer] for layer in sorted(found)]
