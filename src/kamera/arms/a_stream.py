"""A-side streaming: the antecedents are streamed past the chunk's frozen states, layer by layer apart.

One of the paper's ruled-out estimators, which its text names and doesn't define; this is our reading.
Each layer's KV is estimated from the states that the chunk has without its antecedents `depth` layers
below, run in context from there: with depth 1 every layer sees A once and no layer sees what another
absorbed, so that all of them could run at the same time.
"""

from __future__ import annotations

import time

import torch

from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.arms.laid_out import LaidOut
from kamera.arms.token_arm import row_bytes
from kamera.arms.workbench import Workbench
from kamera.channels import ChunkKV


class AStream(Arm):
    """Each layer from states frozen `depth` layers below. As deep as the model: re-prefill; 0: blind."""

    def __init__(self, bench: Workbench, depth: int = 1) -> None:
        self.bench, self.depth = bench, depth
        self.name = f"A-stream {depth}"

    def prepare(self, request: ArmRequest) -> None:
        """Compile canonicals and see images."""
        self.bench.blind(request.cached)
        self.bench.vision(request.cached)

    def serve(self, request: ArmRequest) -> Served:
        """One pass for each layer; of each pass, that layer's KV is kept."""
        self.prepare(request)
        clock = time.perf_counter()
        window = LaidOut(request, self.bench.blind(request.cached))
        behind, num_layers = window.behind, window.blind.num_layers
        num_run = int(behind.sum())
        tensors = {name: tensor.clone() for name, tensor in window.blind.tensors.items()}
        if num_run and self.depth:
            for layer in range(num_layers):
                kv = self._pass(window, layer)
                for name, tensor in tensors.items():
                    tensor[layer] = kv.tensors[name][layer]
        logits = self.bench.finish(request, ChunkKV(tensors)).logits
        ttft_s = time.perf_counter() - clock
        num_passed = sum(min(layer, self.depth) + 1 for layer in range(num_layers))
        is_run = bool(num_run and self.depth)
        return Served(
            logits,
            num_prefilled=num_run if is_run else 0,
            num_vision_runs=0,
            ttft_s=ttft_s,
            num_bytes=num_run * num_layers * row_bytes(tensors) if is_run else 0,
            num_token_layers=num_run * num_passed if is_run else 0,
        )

    def _pass(self, window: LaidOut, layer: int) -> ChunkKV:
        """The window's KV of a run whose states are frozen below `layer - depth`."""
        first = max(layer - self.depth, 0)
        vision = self.bench.vision(window.chunks)
        frozen = [self.bench.open.layer_inputs(c, vision, first) for c in window.chunks[1:]]
        num_run = int(window.behind.sum())

        def keep(at: int, *_: object) -> torch.Tensor:
            return torch.full((num_run,), first <= at <= layer)

        inputs = (first, torch.cat(frozen))
        behind = window.behind
        return self.bench.open.recompute(
            window.chunks, vision, window.blind, behind, keep, inputs=inputs
        ).kv
