"""A prefix cache: the chunks that the window shares with the last one from its front on are kept.

What every engine ships (vLLM's block hashes, SGLang's radix tree), at the granularity of chunks and with room
for the last window. As there, an image inside the shared prefix isn't encoded again.
"""

from __future__ import annotations

import time

from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.channels import ChunkKV, concat
from kamera.engines.contract import Engine


class PrefixCache(Arm):
    """Keeps the KV of the last window."""

    name = "prefix cache"

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.reset()

    def reset(self) -> None:
        """Forget the last window."""
        self._digests: list[str] = []
        self._kv: ChunkKV | None = None

    def serve(self, request: ArmRequest) -> Served:
        """Prefill what stands behind the shared prefix, then the tail."""
        clock, runs = time.perf_counter(), self.engine.num_vision_runs
        chunks = request.cached
        shared = self._shared([chunk.digest for chunk in chunks])
        held, missing = chunks[:shared], chunks[shared:]
        context = None
        if held and self._kv is not None:
            context = self._kv.slice_tokens(0, sum(chunk.num_tokens for chunk in held))
        vision = {c.media.digest: self.engine.see(c) for c in missing if c.media}
        start = sum(chunk.extent for chunk in held)
        out = self.engine.prefill([*missing, request.tail], vision, start=start, context=context)
        ttft_s = time.perf_counter() - clock
        num_new = sum(chunk.num_tokens for chunk in missing)
        new = out.kv.slice_tokens(0, num_new)
        self._kv = new if context is None else concat([context, new])
        self._digests = [chunk.digest for chunk in chunks]
        return Served(
            out.logits,
            num_new,
            self.engine.num_vision_runs - runs,
            ttft_s,
            num_bytes=self._kv.num_bytes,
            num_token_layers=num_new * new.num_layers,
        )

    def _shared(self, digests: list[str]) -> int:
        for i, (held, wanted) in enumerate(zip(self._digests, digests, strict=False)):
            if held != wanted:
                return i
        return min(len(self._digests), len(digests))
