"""Layer re-prefill: the shallow layers are reused, those from ℓ* on are recomputed in context for all
tokens.

Paper Table 2 ("partial forward: shallow reuse, deep recompute"), Table 5 (bottom 3 layers reused) and
Table 8. Each chunk's hidden states at layer ℓ*, made from the chunk alone, are kept beside its canonical;
they are as free of position as the canonical is.
"""

from __future__ import annotations

import time

import torch

from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.arms.laid_out import LaidOut
from kamera.arms.token_arm import Choice, row_bytes
from kamera.arms.workbench import Workbench


class LayerReprefill(Arm):
    """From layer `first` on. `first` 0: re-prefill; the number of layers: blind."""

    def __init__(self, bench: Workbench, first: int) -> None:
        self.bench, self.first = bench, first
        self.name = f"layers from {first}"

    def prepare(self, request: ArmRequest) -> None:
        """Compile canonicals and see images."""
        self.bench.blind(request.cached)
        self.bench.vision(request.cached)

    def serve(self, request: ArmRequest) -> Served:
        """Put the kept hidden states in at layer ℓ* and run what is above it."""
        self.prepare(request)
        held, vision = self.bench.blind(request.cached), self.bench.vision(request.cached)
        window = LaidOut(request, held)
        is_deep = torch.arange(held.num_layers) >= self.first
        choice = Choice(window.behind & is_deep[:, None])
        inputs = None
        if bool(choice.rows.any()):
            hidden = [
                self.bench.open.layer_inputs(c, vision, self.first) for c in window.chunks[1:]
            ]
            inputs = (self.first, torch.cat(hidden))
        clock = time.perf_counter()
        out = self.bench.open.recompute(
            request.cached, vision, held, choice.rows, choice.keep, inputs=inputs
        )
        logits = self.bench.finish(request, out.kv).logits
        ttft_s = time.perf_counter() - clock
        written = int(out.written.sum())
        return Served(
            logits,
            num_prefilled=int(out.written.any(0).sum()),
            num_vision_runs=0,
            ttft_s=ttft_s,
            num_bytes=written * row_bytes(held.tensors),
            num_token_layers=written,
        )
