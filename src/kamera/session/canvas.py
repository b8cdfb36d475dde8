"""`Canvas`: the window's KV in the memory that the engine's forward reads, written chunk by chunk.

The residents say what the window holds; this is a copy of them in place, and can always be made again. What
already stands where it is wanted isn't written again: a chunk that is admitted behind others costs its own
bytes alone. Nothing is joined or copied on the way to the forward.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.engines.contract import Composed, Engine
from kamera.session.resident import Source

SPARE_TOKENS = 256
"""Room beyond what was asked for when memory is taken: windows and answers grow."""


@dataclass(frozen=True, eq=False)
class _Standing:
    """A chunk in place: where its tokens end, and its first position. No source: half written."""

    source: Source | None
    start: int
    end_token: int


@dataclass(eq=False)
class Canvas:
    """Chunks stand one behind the other from token 0 on. Not thread-safe."""

    engine: Engine
    _room: ChunkKV | None = None
    _standing: list[_Standing] = field(default_factory=list)
    _num_wanted: int = 0

    def reserve(self, num_tokens: int) -> None:
        """Take room for so many tokens at the next chunk that is laid, so that it is taken once."""
        self._num_wanted = num_tokens

    def lay(self, index: int, source: Source, chunk: Chunk, start: int) -> None:
        """Put the window's chunk `index` behind the one before it, at position `start`.

        Those behind it keep standing when it takes as many tokens as what stood here.
        """
        there = self._standing[index] if index < len(self._standing) else None
        if there is not None and there.source is source and there.start == start:
            return
        token = self._end(index)
        end = token + chunk.num_tokens
        if there is None or there.end_token != end:
            del self._standing[index:]
        placed = self._slot(source, token, end)
        self._standing[index : index + 1] = [_Standing(None, start, end)]
        source.write(chunk.layout.at(start), self.engine.spec, placed.tensors)
        self._standing[index] = _Standing(source, start, end)

    def front(self, count: int) -> Composed | None:
        """The first `count` chunks, for a forward behind them; the rest is given up. None without a chunk."""
        del self._standing[count:]
        if self._room is None or not count:
            return None
        end = self._end(count)
        self._make_room(self._room, max(end, self._num_wanted))
        return Composed(self._room, end)

    def placed(self, index: int) -> ChunkKV:
        """A copy of chunk `index` as it stands."""
        assert self._room is not None
        here = self._room.slice_tokens(self._end(index), self._end(index + 1))
        return ChunkKV({name: tensor.clone() for name, tensor in here.tensors.items()})

    def _end(self, count: int) -> int:
        """Tokens of the first `count` chunks."""
        return self._standing[count - 1].end_token if count else 0

    def _slot(self, source: Source, start: int, end: int) -> ChunkKV:
        self._make_room(source.like, max(end, self._num_wanted))
        assert self._room is not None
        return self._room.slice_tokens(start, end)

    def _make_room(self, like: ChunkKV, num_tokens: int) -> None:
        """Room for `num_tokens`; what stands moves along."""
        if self._room is not None and self._room.num_tokens >= num_tokens:
            return
        larger = self.engine.room(like, num_tokens + SPARE_TOKENS)
        if self._room is not None:
            end = self._end(len(self._standing))
            for name, tensor in larger.tensors.items():
                tensor[:, :end].copy_(self._room.tensors[name][:, :end])
        self._room = larger  # last: an interrupt leaves what stands where it is
