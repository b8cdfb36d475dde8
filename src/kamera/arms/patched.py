"""Canonical plus patch: every chunk behind its own antecedents, by a rank-m patch formed ahead."""

from __future__ import annotations

import time

from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.arms.workbench import Workbench
from kamera.channels import concat
from kamera.identity import AntecedentKey
from kamera.patch import Patch, apply


class Patched(Arm):
    """The paper's operator (Eq. 1) at one rank; `rank=None` is full rank."""

    def __init__(self, bench: Workbench, rank: int | None) -> None:
        self.bench, self.rank = bench, rank
        self.name = "patch full" if rank is None else f"patch {rank}"
        self.reset()

    def reset(self) -> None:
        """Forget all patches."""
        self._patches: dict[tuple[str, str], Patch] = {}

    def prepare(self, request: ArmRequest) -> None:
        """One conditioned forward over the window; fit each chunk's deficit."""
        for index, chunk in enumerate(request.cached):
            antecedent = AntecedentKey(tuple(c.digest for c in request.cached[:index])).digest
            if (chunk.digest, antecedent) not in self._patches:
                patch = self.bench.patch(request.cached, index).truncate(self.rank)
                self._patches[chunk.digest, antecedent] = patch

    def serve(self, request: ArmRequest) -> Served:
        """Relocate, patch and compose; no forward but the tail's. Call `prepare` first."""
        clock = time.perf_counter()
        placed, start, num_bytes = [], 0, 0
        for index, chunk in enumerate(request.cached):
            antecedent = AntecedentKey(tuple(c.digest for c in request.cached[:index])).digest
            patch = self._patches[chunk.digest, antecedent]
            canonical = self.bench.canonical(chunk)
            spec = self.bench.engine.spec
            placed.append(apply(canonical, patch, chunk.layout.at(start), spec))
            start += chunk.extent
            num_bytes += patch.num_bytes if index else 0  # the leading chunk needs none
        out = self.bench.finish(request, concat(placed))
        return Served(out.logits, 0, 0, time.perf_counter() - clock, num_bytes=num_bytes)
