"""`Case`: one window with the chunk B that is looked at, and a question behind it. What all probes share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kamera.arms.contract import ArmRequest
from kamera.arms.workbench import Workbench
from kamera.channels import ChunkKV, concat
from kamera.chunk import Chunk
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.lab.evaluation import request_of
from kamera.lab.tasks import Item
from kamera.patch import Deficits, Patch, apply, form_patch
from kamera.shapes import Positions


@dataclass(frozen=True)
class Case:
    """A window from position 0: A, then B, then what may stand behind B, then the tail.

    Attributes:
        bench: the forwards of this window; each is run once.
        chunks: all cached chunks, the pinned prefix included.
        target: index of B among them. A is all that stands before it.
        tail: the question.
        answer: the token that answers it, if there is one such.

    Raises:
        ConfigError: B isn't among the chunks, or is the first: it has no antecedent.
    """

    bench: Workbench
    chunks: tuple[Chunk, ...]
    target: int
    tail: Chunk
    answer: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.target < len(self.chunks):
            raise ConfigError(
                f"Invalid target: expected 1 to {len(self.chunks) - 1}, a chunk behind another, "
                f"got {self.target}"
            )

    @property
    def engine(self) -> HFEngine:
        """The bench's."""
        assert isinstance(self.bench.engine, HFEngine)
        return self.bench.engine

    @property
    def chunk(self) -> Chunk:
        """B."""
        return self.chunks[self.target]

    @property
    def start(self) -> int:
        """B's first position."""
        return sum(chunk.extent for chunk in self.chunks[: self.target])

    @property
    def tail_start(self) -> int:
        """The tail's first position."""
        return sum(chunk.extent for chunk in self.chunks)

    @property
    def span(self) -> tuple[int, int]:
        """[start, end) of B's tokens in the window."""
        first = sum(chunk.num_tokens for chunk in self.chunks[: self.target])
        return first, first + self.chunk.num_tokens

    @property
    def request(self) -> ArmRequest:
        """The case as an arm takes it."""
        return ArmRequest(None, self.chunks, self.tail)

    def up_to_target(self) -> Case:
        """The same with nothing between B and the tail."""
        return Case(self.bench, self.chunks[: self.target + 1], self.target, self.tail, self.answer)

    def rows(self, start: int, end: int) -> Bool[Tensor, " T"]:
        """Tokens [start, end) of the window with its tail."""
        total = sum(chunk.num_tokens for chunk in (*self.chunks, self.tail))
        steps = torch.arange(total)
        return (steps >= start) & (steps < end)

    def delta(self) -> Deficits:
        """Δ of B, un-rotated frame, float32 [L, T, F] by channel."""
        return self.bench.delta(self.chunks, self.target)

    def conditioned(self) -> ChunkKV:
        """KV(B given A), un-rotated, float32."""
        placed = self.bench.conditioned(self.chunks, self.target)
        positions = self.chunk.layout.at(self.start)
        return placed.to_canonical(positions, self.engine.spec, torch.float32)

    def reference(self) -> Float[Tensor, " vocab"]:
        """Re-prefill's logits."""
        return self.bench.full([*self.chunks, self.tail]).logits

    def with_patch(self, patch: Patch | None) -> Float[Tensor, " vocab"]:
        """Logits with B from its canonical and this patch; None is blind."""
        positions = self.chunk.layout.at(self.start)
        canonical = self.bench.canonical(self.chunk)
        return self.with_kv(apply(canonical, patch, positions, self.engine.spec))

    def with_delta(self, deltas: Deficits) -> Float[Tensor, " vocab"]:
        """Logits with B from its canonical plus this Δ, whatever its rank."""
        return self.with_patch(form_patch(deltas, "probe"))

    def blind(self) -> ChunkKV:
        """B's canonical relocated to its place."""
        canonical = self.bench.canonical(self.chunk)
        return canonical.at(self.chunk.layout.at(self.start), self.engine.spec)

    def with_rows(self, rows: Bool[Tensor, " B"]) -> Float[Tensor, " vocab"]:
        """Logits with B blind but for these of its tokens, which have the KV that re-prefill gave them."""
        blind, full = self.blind(), self.bench.conditioned(self.chunks, self.target)
        chosen = rows.to(self.engine.device)[None, :, None, None]
        mixed = {n: torch.where(chosen, full.tensors[n], t) for n, t in blind.tensors.items()}
        return self.with_kv(ChunkKV(mixed))

    def with_kv(self, placed: ChunkKV) -> Float[Tensor, " vocab"]:
        """Logits with B's placed KV swapped for this; all other chunks as re-prefill made them."""
        window = [self.bench.conditioned(self.chunks, i) for i in range(len(self.chunks))]
        window[self.target] = placed
        context = concat(window)
        engine = self.engine
        return engine.prefill([self.tail], {}, start=self.tail_start, context=context).logits


def laid_out(
    bench: Workbench, chunks: Sequence[Chunk]
) -> tuple[list[int], Positions, Float[Tensor, "media hidden"] | None]:
    """Token ids, positions from 0 on and media embeddings of chunks, one behind the other."""
    placed, start = [], 0
    for chunk in chunks:
        placed.append(chunk.layout.at(start))
        start += chunk.extent
    vision = bench.vision(chunks)
    media = [vision[chunk.media.digest] for chunk in chunks if chunk.media is not None]
    ids = [i for chunk in chunks for i in chunk.key.token_ids]
    return ids, torch.cat(placed), torch.cat(media) if media else None


def case_of(bench: Workbench, item: Item) -> Case:
    """A task's item; B is its target frame."""
    assert isinstance(bench.engine, HFEngine)
    request = request_of(bench.engine, item)
    target = item.target + len(request.cached) - len(request.chunks)
    answer = answer_token(bench.engine, item.answer)
    return Case(bench, request.cached, target, request.tail, answer)


def text_case(
    bench: Workbench, before: str, text: str, question: str, answer: str | None = None
) -> Case:
    """B is a text behind another text: the control without media."""
    engine = bench.engine
    assert isinstance(engine, HFEngine)
    prefix, tail = engine.frame(question)
    chunks = (engine.text_chunk(before), engine.text_chunk(text))
    pinned = () if prefix is None else (prefix,)
    wanted = None if answer is None else answer_token(engine, answer)
    return Case(bench, (*pinned, *chunks), len(pinned) + 1, tail, wanted)


def answer_token(engine: HFEngine, answer: str) -> int | None:
    """The answer's token; None where the tokenizer makes several of it."""
    ids = engine.text_chunk(answer).key.token_ids
    return ids[0] if len(ids) == 1 else None


def cases_of(bench: Workbench, items: Sequence[Item]) -> Iterator[Case]:
    """One case after the other; the bench forgets each when the next is asked for."""
    for item in items:
        yield case_of(bench, item)
        bench.clear()
