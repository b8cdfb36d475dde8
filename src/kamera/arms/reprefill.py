"""Re-prefill: the whole request from the pixels, every time. Always right; what all else is judged by."""

from __future__ import annotations

import time

from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.engines.contract import Engine


class Reprefill(Arm):
    """One forward over the window and the tail; the vision tower runs over every image."""

    name = "re-prefill"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def serve(self, request: ArmRequest) -> Served:
        """Prefill everything."""
        clock, runs = time.perf_counter(), self.engine.num_vision_runs
        vision = {c.media.digest: self.engine.see(c) for c in request.cached if c.media}
        out = self.engine.prefill([*request.cached, request.tail], vision, start=0)
        ttft_s = time.perf_counter() - clock
        num_tokens = sum(chunk.num_tokens for chunk in request.cached)
        return Served(
            out.logits,
            num_prefilled=num_tokens,
            num_vision_runs=self.engine.num_vision_runs - runs,
            ttft_s=ttft_s,
            num_bytes=out.kv.slice_tokens(0, num_tokens).num_bytes,
            num_token_layers=num_tokens * out.kv.num_layers,
        )
