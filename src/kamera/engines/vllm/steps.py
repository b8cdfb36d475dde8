"""What a request's chunks are got by, from the front: held in the store, or left to the engine."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kamera.chunk import Chunk
from kamera.library import Library
from kamera.planner import (
    ChunkRecord,
    ConditionedRecord,
    Front,
    OperatingPoint,
    PatchRecord,
    Plan,
    PlannedChunk,
    Request,
    RequestedChunk,
    formed_name,
    plan,
    served_name,
)

MAX_FORMED = 16
"""Antecedents remembered for a chunk, the latest first: what a survivor may be served from."""
MAX_CHUNKS = 100_000


@dataclass(frozen=True)
class Step:
    """How one chunk is got.

    Attributes:
        point: the operating point's name; `prefill` when the engine does it.
        name: names its KV as it then stands; the chunk's own digest when it is exact.
        held: whether it comes from the store.
        patch: the patch to add; None relocates alone.
    """

    point: str
    reason: str
    name: str
    held: bool
    patch: PatchRecord | None = None


@dataclass
class Formed:
    """Behind which antecedents patches of a chunk were formed. A hint: the store is asked before use."""

    known: OrderedDict[str, OrderedDict[PatchRecord, None]] = field(default_factory=OrderedDict)

    def add(self, chunk: str, record: PatchRecord) -> None:
        """Remember a patch."""
        records = self.known.setdefault(chunk, OrderedDict())
        self.known.move_to_end(chunk)
        records[record] = None
        records.move_to_end(record)
        if len(records) > MAX_FORMED:
            records.popitem(last=False)
        if len(self.known) > MAX_CHUNKS:
            self.known.popitem(last=False)

    def behind_more(self, chunk: str, antecedents: tuple[str, ...]) -> list[PatchRecord]:
        """Patches formed behind more antecedents that end as these do, the latest first."""
        last = antecedents[-1:] if len(antecedents) > 1 else ()
        return [
            record
            for record in reversed(self.known.get(chunk, ()))
            if len(record.antecedents) > len(antecedents)
            and record.antecedents[-1:][: len(last)] == last
        ]


@dataclass
class Shelf:
    """The planner's catalog: one shard's library, asked for its index alone."""

    library: Library
    formed: Formed
    survivors: dict[str, PatchRecord] = field(default_factory=dict)

    def window(self, chunks: tuple[str, ...]) -> list[ChunkRecord]:
        """What is held of each chunk behind those in front."""
        found = self.library.look_up(chunks, range(len(chunks)))
        return [
            self._record(chunks, place, found[place]) if place in found else ChunkRecord()
            for place in range(len(chunks))
        ]

    def served(
        self, chunks: tuple[str, ...], contexts: Mapping[int, str]
    ) -> dict[int, PatchRecord]:
        """The patches that are listed for chunks in these contexts."""
        return self.library.look_up_served(chunks, contexts)

    def _record(
        self, chunks: tuple[str, ...], place: int, patch: PatchRecord | None
    ) -> ChunkRecord:
        """Of a chunk whose canonical is listed."""
        if patch is not None:
            return ChunkRecord(canonical=True, patches=(patch,))  # no survivor comes before it
        conditioned = tuple(self._conditioned(chunks[place], chunks[:place]))
        return ChunkRecord(canonical=True, conditioned=conditioned)

    def _conditioned(self, chunk: str, antecedents: tuple[str, ...]) -> list[ConditionedRecord]:
        """A canonical with its patch stands for the KV that it was formed on: a survivor's source."""
        found = []
        for record in self.formed.behind_more(chunk, antecedents):
            if self.library.has_patch(record):
                # Numbered: an orbit's patch has one name in every order.
                slot = f"{len(self.survivors)} {record.name}"
                self.survivors[slot] = record
                name = record.kv_name(chunk)
                point = OperatingPoint.EXACT
                found.append(ConditionedRecord(record.antecedents, slot, point, name))
        return found


def steps_of(chunks: Sequence[Chunk], shelf: Shelf, *, keep_survivors: bool) -> list[Step]:
    """The longest prefix of held chunks by the menu; from the first that isn't held on, the engine's."""
    request = Request(
        tuple(RequestedChunk(str(i), c.digest, c.num_tokens) for i, c in enumerate(chunks)),
        pinned=bool(chunks) and chunks[0].key.kind == "text",
        keep_survivors=keep_survivors,
    )
    made = plan(request, shelf)
    first = _first_missing(made)
    steps = [_step(planned, shelf) for planned in made.chunks[:first]]
    if first == len(chunks):
        return steps
    front = Front()
    for chunk, step in zip(chunks, steps, strict=False):
        front.add(chunk.digest, step.name)
    reason = _why(chunks[first], shelf, made.chunks[first])
    for chunk in chunks[first:]:
        name = formed_name(chunk.digest, front.context)
        steps.append(Step("prefill", reason, name, held=False))
        front.add(chunk.digest, name)
        reason = "behind a chunk that isn't held"
    return steps


def blind_steps(chunks: Sequence[Chunk], library: Library) -> list[Step]:
    """Canonicals alone, as far as they are held: what reuse without patches would give."""
    steps: list[Step] = []
    for chunk in chunks:
        held = library.has_canonical(chunk) and all(step.held for step in steps)
        name = served_name(chunk.digest, "blind") if steps else chunk.digest
        point = "blind" if held else "prefill"
        steps.append(Step(point, "asked for without patches", name, held))
    return steps


def _why(chunk: Chunk, shelf: Shelf, missing: PlannedChunk) -> str:
    if missing.antecedents and not shelf.library.has_canonical(chunk):
        return "no canonical yet: it comes from a solo request"
    return missing.choice.reason


def _first_missing(made: Plan) -> int:
    return next(
        (i for i, planned in enumerate(made.chunks) if not planned.choice.point.is_free),
        len(made.chunks),
    )


def _step(planned: PlannedChunk, shelf: Shelf) -> Step:
    choice = planned.choice
    patch = choice.patch if choice.slot is None else shelf.survivors[choice.slot]
    return Step(choice.point.value, choice.reason, planned.name, held=True, patch=patch)
