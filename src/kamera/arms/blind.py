"""Blind reuse: every chunk's canonical is relocated, and nothing gives back what it would have absorbed."""

from __future__ import annotations

import time

from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.arms.workbench import Workbench


class Blind(Arm):
    """R(δ) alone (paper section 2). A chunk that was never seen is compiled on the path."""

    name = "blind"

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.reset()

    def reset(self) -> None:
        """Forget which chunks were compiled."""
        self._known: set[str] = set()

    def prepare(self, request: ArmRequest) -> None:
        """Compile every chunk's canonical."""
        for chunk in request.cached:
            self.bench.canonical(chunk)
            self._known.add(chunk.digest)

    def serve(self, request: ArmRequest) -> Served:
        """Relocate and compose."""
        clock, runs = time.perf_counter(), self.bench.engine.num_vision_runs
        new = {c.digest: c.num_tokens for c in request.cached if c.digest not in self._known}
        self.prepare(request)
        placed = self.bench.blind(request.cached)
        out = self.bench.finish(request, placed)
        return Served(
            out.logits,
            num_prefilled=sum(new.values()),
            num_vision_runs=self.bench.engine.num_vision_runs - runs,
            ttft_s=time.perf_counter() - clock,
            num_token_layers=sum(new.values()) * placed.num_layers,
        )
