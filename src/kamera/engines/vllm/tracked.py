"""`Tracked`: what the scheduler's half knows of one request while it lives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kamera.chunk import Chunk
from kamera.engines.vllm.metadata import Owner
from kamera.engines.vllm.steps import Step
from kamera.planner import Front, context_of, formed_name


@dataclass
class Tracked:
    """One request.

    Attributes:
        request: vLLM's own; never written to but for its salt, once something is composed into its blocks.
        passed: why it is left to the engine untouched; "" when it has chunks.
        owner: whose entries it reads and writes.
        chunks: for each shard the chunks, in order. The tail isn't among them.
        ends: where each chunk's tokens end.
        hashes: vLLM's name of each chunk's media; None for text.
        salt: the request's own `cache_salt`.
        blind: asked for without patches.
        steps: for each shard how each chunk is got; settled for good once something was loaded.
        num_loaded: chunks that a load covers.
        num_local: tokens that the engine's own prefix cache had before the load.
        captured: chunks whose KV was read back.
        failed: a load failed: the engine prefills all of it.
        is_again: it was preempted after a load, and asked for the same once more.
        planned_until: no new plan before this time; a clock's reading in seconds.
    """

    request: Any
    passed: str
    owner: Owner
    chunks: tuple[tuple[Chunk, ...], ...] = ()
    ends: tuple[int, ...] = ()
    hashes: tuple[str | None, ...] = ()
    salt: str | None = None
    blind: bool = False
    steps: list[list[Step]] = field(default_factory=list)
    num_loaded: int = 0
    num_local: int = 0
    captured: set[int] = field(default_factory=set)
    failed: bool = False
    counted: bool = False
    is_again: bool = False
    planned_until: float = 0.0

    @property
    def num_chunks(self) -> int:
        """Chunks of the request."""
        return len(self.ends)

    @property
    def num_held(self) -> int:
        """Leading chunks that every shard holds."""
        return min(
            (next((i for i, s in enumerate(of) if not s.held), len(of)) for of in self.steps),
            default=0,
        )

    def starts(self) -> list[int]:
        """The first position of each chunk."""
        at, starts = 0, []
        for chunk in self.chunks[0]:
            starts.append(at)
            at += chunk.extent
        return starts

    def begin(self, index: int) -> int:
        """The first token of a chunk."""
        return self.ends[index - 1] if index else 0

    def antecedents(self, shard: int, index: int) -> tuple[str, ...]:
        """The digests of the chunks in front."""
        return tuple(chunk.digest for chunk in self.chunks[shard][:index])

    def contexts(self, shard: int) -> list[str]:
        """For each chunk the name of how what stands in front was made; "" when all is exact."""
        front = Front()
        contexts: list[str] = []
        for index, chunk in enumerate(self.chunks[shard]):
            contexts.append(front.context)
            front.add(chunk.digest, self._name(shard, index, chunk, front.context))
        return contexts

    def _name(self, shard: int, index: int, chunk: Chunk, context: str) -> str:
        """The name of a chunk's KV in this request's blocks."""
        if index >= self.num_loaded or self.failed:
            return formed_name(chunk.digest, context)
        held = self.steps[shard][index].name
        if self.num_local >= self.ends[index]:  # the engine's own prefix cache: exact
            return chunk.digest
        # A head that is exact only makes the patched rest better: the context keeps one name.
        return held


def plan_name(shards: Iterable[Sequence[Step]]) -> str:
    """One name for all that is composed, in every shard: the salt of the blocks that hold it."""
    return context_of([step.name for steps in shards for step in steps])
