"""`Carrier`: carries a plan out, chunk by chunk from the front of the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kamera.chunk import Chunk
from kamera.engines.contract import Engine
from kamera.library import Library
from kamera.planner import Front, OperatingPoint, PatchRecord, Plan, PlannedChunk, formed_name
from kamera.session.canvas import Canvas
from kamera.session.former import Former
from kamera.session.outcome import ChunkOutcome
from kamera.session.pending import FormJob, Pending
from kamera.session.resident import Cached, Patched, Resident, Source
from kamera.store import Miss, MissReason

KEEPS_NOTHING = "the patch keeps nothing: as blind reuse"
"""What is said of a chunk that a patch of rank 0 serves: it is the canonical, moved."""

OTHER_FRONT = "no patch was formed behind what stands in front now, not all of which is as planned"


@dataclass
class Carried:
    """A window as it now stands: what each slot holds, and what was done. Its KV is on the canvas."""

    residents: dict[str, Resident] = field(default_factory=dict)
    outcomes: list[ChunkOutcome] = field(default_factory=list)


@dataclass(frozen=True)
class Carrier:
    """Serves a chunk from what is held, or forms it behind what is placed, and lays it on the canvas.

    `chunks` is the session's, by digest. With `form_leading` a chunk that is formed behind others also gets
    its patch behind `prefix` alone.
    """

    engine: Engine
    library: Library
    former: Former
    pending: Pending
    canvas: Canvas
    chunks: Mapping[str, Chunk]
    prefix: Chunk | None
    form_leading: bool

    def carry(self, plan: Plan, residents: Mapping[str, Resident]) -> Carried:
        """The planned window; `residents` are those of the window before, by slot."""
        done = Carried()
        self.canvas.reserve(sum(chunk.request.num_tokens for chunk in plan.chunks))
        front = Front()
        start = 0
        with self.library.reading_ahead(self._wanted(plan)) as library:
            carrier = replace(self, library=library)
            for planned in plan.chunks:
                resident = carrier._serve(planned, residents, done, start, front.context)
                front.add(planned.request.chunk, _name_here(resident, planned))
                start += self.chunks[planned.request.chunk].extent
        return done

    def _wanted(self, plan: Plan) -> list[tuple[Chunk, PatchRecord | None]]:
        """What the plan's chunks are served from in the store, in order."""
        return [
            (self.chunks[planned.request.chunk], planned.choice.patch)
            for planned in plan.chunks
            if planned.choice.slot is None and planned.choice.point.is_free
        ]

    def _serve(
        self,
        planned: PlannedChunk,
        residents: Mapping[str, Resident],
        done: Carried,
        start: int,
        context: str,
    ) -> Resident:
        """One chunk at `start`, added to what is done; formed when the store doesn't give it."""
        chunk = self.chunks[planned.request.chunk]
        before = (self.former.num_formed, self.former.num_vision_runs)
        point, reason, num_prefilled = planned.choice.point, planned.choice.reason, 0
        held = self._hold(planned, chunk, residents, context)
        if isinstance(held, Miss):
            point, reason = OperatingPoint.FORM, f"miss: {held.reason.value}: {held.detail}"
        if not isinstance(held, Resident):
            held = self._form(planned, chunk, len(done.outcomes), start, context)
            num_prefilled = chunk.num_tokens
        outcome = ChunkOutcome(
            planned.request.slot,
            chunk.num_tokens,
            start,
            point,
            reason,
            exact=held.exact and held.antecedents == planned.antecedents,
            num_prefilled=num_prefilled,
            num_formed=self.former.num_formed - before[0],
            num_vision_runs=self.former.num_vision_runs - before[1],
        )
        done.residents[planned.request.slot] = held
        self.canvas.lay(len(done.outcomes), held.source, chunk, start)
        done.outcomes.append(_with_patch(outcome, held.source))
        return held

    def _hold(
        self,
        planned: PlannedChunk,
        chunk: Chunk,
        residents: Mapping[str, Resident],
        context: str,
    ) -> Resident | Miss | None:
        """What the choice says is held; a Miss if the store doesn't give it; None if it must be formed.

        A served patch is a Miss too where `context` isn't the planned one: something in front was a Miss.
        """
        choice = planned.choice
        if choice.slot is not None:
            return residents[choice.slot]
        if not choice.point.is_free:
            return None
        if choice.point is OperatingPoint.SERVED and context != planned.context:
            return Miss(MissReason.UNKNOWN, OTHER_FRONT)
        canonical = self.library.canonical(chunk)
        if isinstance(canonical, Miss):
            return canonical
        source: Source = Patched(canonical, None)
        if choice.patch is not None:
            patch = self.library.patch(chunk, choice.patch)
            if isinstance(patch, Miss):
                return patch
            source = Patched(canonical, patch)
        return Resident(source, planned.antecedents, choice.point, planned.name)

    def _form(
        self,
        planned: PlannedChunk,
        chunk: Chunk,
        index: int,
        start: int,
        context: str,
    ) -> Resident:
        """Prefill behind the `index` chunks that are in place, and keep what the chunk absorbed.

        `context` names how that was made, when some of it is approximate.
        """
        front = self.canvas.front(index)
        vision = self.former.vision([chunk])
        kv = self.engine.prefill([chunk], vision, start=start, context=front).kv
        positions = chunk.layout.at(start)
        behind = len(planned.antecedents) > 1 and self.form_leading
        leading = self.prefix if behind else None
        self.pending.add(FormJob(chunk, planned.antecedents, kv, positions, context, leading))
        point = OperatingPoint.FORM if context else OperatingPoint.LEADING
        name = formed_name(chunk.digest, context)
        return Resident(Cached(kv, positions), planned.antecedents, point, name)


def _with_patch(outcome: ChunkOutcome, source: Source) -> ChunkOutcome:
    if not isinstance(source, Patched) or source.patch is None:
        return outcome
    if not source.patch.rank:  # no bound left room for one direction, or there was no deficit
        return replace(outcome, reason=f"{outcome.reason}; {KEEPS_NOTHING}")
    return replace(outcome, patch_rank=source.patch.rank, patch_bytes=source.patch.num_bytes)


def _name_here(resident: Resident, planned: PlannedChunk) -> str:
    """The name of a resident's KV in this window: its own, but for a survivor's."""
    here = resident.antecedents == planned.antecedents
    return resident.name if here else planned.name
