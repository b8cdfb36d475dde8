"""A window is looked up at once: the plan is that of a look at each chunk in turn."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kamera.channels import ChunkKV
from kamera.errors import ConfigError
from kamera.library import Library
from kamera.patch import form_patch
from kamera.planner import (
    Choice,
    ChunkRecord,
    ConditionedRecord,
    Front,
    OperatingPoint,
    PatchKind,
    PatchRecord,
    Plan,
    PlannedChunk,
    Request,
    RequestedChunk,
    formed_name,
    plan,
)
from kamera.planner.lanes import MENU, Situation
from kamera.session.holdings import Holdings
from kamera.session.resident import Patched, Resident
from kamera.store import EntryKey, MemoryStore
from listed_chunks import CHUNKS, MODEL, put

RANK = 4
CONTEXT = "c" * 64
BY_DIGEST = {chunk.digest: chunk for chunk in CHUNKS}
ORDER = st.lists(st.sampled_from(range(4)), min_size=1, max_size=6)


class Asked(MemoryStore):
    """Keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__(1 << 20)
        self.times: list[tuple[str, list[str]]] = []

    def contains_each(self, kind: Any, digests: Any) -> Any:
        self.times.append((kind, list(digests)))
        return super().contains_each(kind, digests)


NOTHING = Patched(ChunkKV({name: torch.zeros(1, 2, 1, 2) for name in ("k", "v")}), None)


def library_of(store: MemoryStore) -> Library:
    return Library(store, MODEL.digest, None, RANK)


def key_of(record: PatchRecord) -> EntryKey:
    return EntryKey("orbit" if record.kind == "orbit" else "patch", record.name)


def request_of(order: list[int], keep_survivors: bool = True) -> Request:
    chunks = (RequestedChunk(str(i), CHUNKS[n].digest, 2) for i, n in enumerate(order))
    return Request(tuple(chunks), pinned=True, keep_survivors=keep_survivors)


def holdings_of(library: Library, residents: dict[str, Any], left: set[str]) -> Holdings:
    slots = {slot: slot.partition(" ")[0] for slot in residents}
    return Holdings(library, residents, slots, left)


def plan_in_turn(request: Request, holdings: Holdings) -> Plan:
    """Chunk by chunk, all that is listed for it asked for before the menu is gone through."""
    library, front, planned = holdings.library, Front(), []
    for place, chunk in enumerate(request.chunks):
        before, context = request.digests[:place], front.context
        conditioned = tuple(
            ConditionedRecord(held.antecedents, slot, held.point, held.name)
            for slot, held in holdings.residents.items()
            if holdings.slots[slot] == chunk.chunk
        )
        known = BY_DIGEST[chunk.chunk]
        listed = library.patches(known, before, context) if before else ()
        record = ChunkRecord(
            library.has_canonical(known),
            tuple(patch for patch in listed if patch.kind != "served"),
            conditioned,
            chunk.chunk in holdings.ever_left,
        )
        formed = formed_name(chunk.chunk, context)
        served = next((patch for patch in listed if patch.kind == "served"), None)
        situation = Situation(request, chunk, before, record, context, formed)
        situation.served = served if record.canonical else None
        choice = next(choice for lane in MENU if (choice := lane(situation)))
        planned.append(PlannedChunk(chunk, before, choice, context))
        front.add(chunk.chunk, choice.name)
    return Plan(tuple(planned))


def comparable(made: Plan) -> list[tuple[Any, ...]]:
    """All of it; the reasons of what is prefilled apart, which name what else is listed."""

    def said(choice: Choice) -> Choice:
        return choice if choice.point.is_free else choice._replace(reason="")

    return [(c.request, c.antecedents, said(c.choice), c.context) for c in made.chunks]


KINDS: tuple[PatchKind, ...] = ("exact", "orbit", "served")
patched = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(KINDS)), max_size=8)
resident = st.tuples(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=4), st.booleans())


@given(
    order=ORDER,
    canonicals=st.sets(st.integers(0, 3)),
    patches=patched,
    residents=st.lists(resident, max_size=3),
    left=st.sets(st.integers(0, 3)),
    keep_survivors=st.booleans(),
)
def test_a_window_that_is_looked_up_at_once_is_planned_as_in_turn(
    order: list[int],
    canonicals: set[int],
    patches: list[tuple[int, PatchKind]],
    residents: list[tuple[int, list[int], bool]],
    left: set[int],
    keep_survivors: bool,
) -> None:
    library, request = library_of(MemoryStore(1 << 20)), request_of(order, keep_survivors)
    held = {}
    for number, behind, is_exact in residents:
        digest = CHUNKS[number].digest
        point = OperatingPoint.LEADING if is_exact else OperatingPoint.EXACT
        name = digest if is_exact else f"made of {number}"
        held[f"{digest} {len(held)}"] = Resident(
            NOTHING, tuple(CHUNKS[n].digest for n in behind), point, name
        )
    holdings = holdings_of(library, held, {CHUNKS[number].digest for number in left})
    for number in canonicals:
        put(library, "canonical", CHUNKS[number].digest)
    for place, kind in patches:  # each as the window is planned by now, so that contexts meet
        if place < len(order):
            found = plan(request, holdings).chunks[place]
            if kind != "served" or found.context:
                chunk = BY_DIGEST[found.request.chunk]
                record = library.record(chunk, kind, found.antecedents, found.context)
                put(library, *key_of(record))
    assert comparable(plan(request, holdings)) == comparable(plan_in_turn(request, holdings))


def test_a_window_is_looked_up_in_few_questions_and_each_chunk_for_what_it_lacks() -> None:
    store = Asked()
    library, request = library_of(store), request_of([0, 1, 2, 3])
    for chunk in CHUNKS[:3]:
        put(library, "canonical", chunk.digest)
    exact = library.record(CHUNKS[1], "exact", request.digests[:1])
    put(library, "patch", exact.name)
    made = plan(request, holdings_of(library, {}, set()))
    points = [chunk.choice.point.value for chunk in made.chunks]
    assert points == ["leading", "exact", "form", "form"]
    behind, context = request.digests[:2], made.chunks[2].context

    def name(kind: PatchKind) -> str:
        return library.record(CHUNKS[2], kind, behind, context).name

    canonicals = ("canonical", list(request.digests))
    exacts, served = ("patch", [exact.name, name("exact")]), ("patch", [name("served")])
    assert store.times == [canonicals, exacts, served]
    put(library, "orbit", library.record(CHUNKS[3], "orbit", request.digests[:1]).name)
    store.times.clear()
    assert plan(request, holdings_of(library, {}, set())) == made
    assert store.times == [canonicals, exacts, ("orbit", [name("orbit")]), served]


def test_a_window_that_is_held_asks_for_its_first_chunk_alone() -> None:
    store, request = Asked(), request_of([0, 1, 2])
    held = {
        f"{digest} here": Resident(NOTHING, request.digests[:place], OperatingPoint.LEADING, digest)
        for place, digest in enumerate(request.digests)
    }
    made = plan(request, holdings_of(library_of(store), held, set()))
    assert {chunk.choice.point for chunk in made.chunks} == {OperatingPoint.LEADING}
    assert store.times == [("canonical", [request.digests[0]])]


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_sees_what_came_and_what_left_since_the_last_one(kind: PatchKind) -> None:
    library, request = library_of(MemoryStore(1 << 20)), request_of([0, 1, 2])
    holdings = holdings_of(library, {}, set())
    for chunk in CHUNKS[:3]:
        put(library, "canonical", chunk.digest)
    put(library, "patch", library.record(CHUNKS[1], "exact", request.digests[:1]).name)
    before = plan(request, holdings).chunks[2]
    assert before.choice.point is OperatingPoint.FORM
    record = library.record(CHUNKS[2], kind, before.antecedents, before.context)
    put(library, *key_of(record))
    choice = plan(request, holdings).chunks[2].choice
    assert (choice.point.value, choice.patch) == (kind, record)
    assert library.store.delete(key_of(record))
    assert plan(request, holdings).chunks[2] == before


def test_an_orbit_patch_with_a_context_is_refused() -> None:
    library = library_of(MemoryStore(1 << 20))
    deltas = {name: torch.ones(1, 2, 2) for name in ("k", "v")}
    patch = form_patch(deltas, "key", 1, kind="orbit")
    with pytest.raises(ConfigError, match="no context"):
        library.keep_patch(CHUNKS[1], [CHUNKS[0].digest], patch, context=CONTEXT)
    assert library.store.keys() == []


def test_a_record_is_what_look_ups_give() -> None:
    library, window = library_of(MemoryStore(1 << 20)), request_of([0, 1, 2]).digests
    for chunk in CHUNKS[:3]:
        put(library, "canonical", chunk.digest)
    first: PatchRecord = library.record(CHUNKS[1], "exact", window[:1])
    second = library.record(CHUNKS[2], "orbit", window[:2])
    third = library.record(CHUNKS[2], "served", window[:2], CONTEXT)
    for record in (first, second, third):
        assert not library.has_patch(record)
        put(library, *key_of(record))
        assert library.has_patch(record)
    assert library.look_up(window, range(3)) == {0: None, 1: first, 2: second}
    assert library.look_up(window, [2]) == {2: second}
    assert library.look_up(window, []) == {}
    assert library.look_up_served(window, {1: CONTEXT, 2: CONTEXT}) == {2: third}
    assert library.look_up_served((window[1], window[0], window[2]), {2: CONTEXT}) == {}
    assert library.patches(CHUNKS[2], window[:2], CONTEXT) == (second, third)
