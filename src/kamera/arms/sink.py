"""Attention-sink prosthesis: each chunk is compiled behind the window's first k tokens, and behind nothing
else.

A chunk compiled alone has no attention sink but its own first tokens (Xiao et al., "Efficient Streaming
Language Models with Attention Sinks", ICLR 2024). The prosthesis gives it one. Ruled out by the paper
(Appendix B; k = 32 in Table 5): what is missing is the antecedents' content, not a sink.
"""

from __future__ import annotations

from kamera.arms.contract import ArmRequest
from kamera.arms.placed_arm import Placed, PlacedArm
from kamera.arms.workbench import Workbench
from kamera.channels import ChunkKV


class Sink(PlacedArm):
    """KV(B | first k tokens), B at its own place. All of the antecedents' tokens: re-prefill."""

    def __init__(self, bench: Workbench, num_tokens: int = 32) -> None:
        super().__init__(bench)
        self.num_tokens = num_tokens
        self.name = f"sink {num_tokens}"
        self.reset()

    def reset(self) -> None:
        """Forget what was compiled."""
        self._compiled: dict[tuple[str, ...], ChunkKV] = {}

    def form(self, request: ArmRequest, index: int) -> None:
        """One forward of the chunk behind the sink's KV."""
        chunks, key = request.cached, self._key(request, index)
        if index == 0 or key in self._compiled:
            return
        start = sum(chunk.extent for chunk in chunks[:index])
        num_before = sum(chunk.num_tokens for chunk in chunks[:index])
        sink = self.bench.full(chunks).kv.slice_tokens(0, min(self.num_tokens, num_before))
        chunk = chunks[index]
        vision = self.bench.vision([chunk])
        context = sink if sink.num_tokens else None
        out = self.bench.engine.prefill([chunk], vision, start=start, context=context)
        self._compiled[key] = out.kv

    def place(self, request: ArmRequest, index: int, start: int) -> Placed:
        """What was compiled; the leading chunk from its canonical."""
        if index == 0:
            chunk = request.cached[0]
            positions = chunk.layout.at(start)
            return Placed(self.bench.canonical(chunk).at(positions, self.bench.engine.spec))
        kv = self._compiled[self._key(request, index)]
        return Placed(kv, kv.num_bytes)

    def _key(self, request: ArmRequest, index: int) -> tuple[str, ...]:
        return tuple(chunk.digest for chunk in request.cached[: index + 1])
