"""`PlacedArm`: what the arms share that run no token on the path. Each chunk is placed from what was kept."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass

import torch

from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.arms.workbench import Workbench
from kamera.channels import ChunkKV, concat
from kamera.patch import Deficits


@dataclass(frozen=True, eq=False)
class Placed:
    """One chunk in the window, and the bytes that were kept for it alone."""

    kv: ChunkKV
    num_bytes: int = 0


class PlacedArm(Arm):
    """Composes the window chunk by chunk; what it places was formed ahead."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    @abstractmethod
    def place(self, request: ArmRequest, index: int, start: int) -> Placed:
        """Chunk `index` of the window at position `start`."""

    def form(self, request: ArmRequest, index: int) -> None:
        """What is formed ahead for chunk `index`, behind those before it."""

    def prepare(self, request: ArmRequest) -> None:
        """Compile every chunk's canonical and form what belongs to it."""
        for index, chunk in enumerate(request.cached):
            self.bench.canonical(chunk)
            self.form(request, index)

    def serve(self, request: ArmRequest) -> Served:
        """Place every chunk; no forward but the tail's. Forms first what wasn't formed, off the clock."""
        self.prepare(request)
        clock = time.perf_counter()
        placed, start = [], 0
        for index, chunk in enumerate(request.cached):
            placed.append(self.place(request, index, start))
            start += chunk.extent
        out = self.bench.finish(request, concat([one.kv for one in placed]))
        ttft_s = time.perf_counter() - clock
        num_bytes = sum(one.num_bytes for one in placed)
        return Served(out.logits, 0, 0, ttft_s, num_bytes=num_bytes)


def with_deficit(canonical: ChunkKV, deltas: Deficits) -> ChunkKV:
    """Canonical + Δ, un-rotated, float32."""
    return ChunkKV(
        {
            name: tensor.to(torch.float32) + deltas[name].view(tensor.shape)
            for name, tensor in canonical.tensors.items()
        }
    )
