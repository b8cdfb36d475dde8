"""`Waiting`: KV behind an antecedent whose canonical isn't there yet."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.library import Library


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A chunk's KV, un-rotated in float32, and what it was formed behind."""

    library: Library
    chunk: Chunk
    antecedents: tuple[str, ...]
    context: str
    kv: ChunkKV


class Waiting:
    """By chunk, under a cap: the oldest leave first, and are counted."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._held: OrderedDict[str, list[Conditioned]] = OrderedDict()

    def add(self, conditioned: Conditioned) -> int:
        """Wait for its canonical. Gives the number of those that left for want of room."""
        self._held.setdefault(conditioned.chunk.digest, []).append(conditioned)
        self.num_bytes += conditioned.kv.num_bytes
        dropped = 0
        while self.num_bytes > self.max_bytes:
            dropped += len(self.take(next(iter(self._held))))
        return dropped

    def take(self, digest: str) -> list[Conditioned]:
        """All that waited for this chunk's canonical."""
        taken = self._held.pop(digest, [])
        self.num_bytes -= sum(one.kv.num_bytes for one in taken)
        return taken

    def clear(self) -> None:
        """Forget all."""
        self._held.clear()
        self.num_bytes = 0
