"""The menu as a table: (request, catalog) -> point, reason, cost."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kamera.errors import ConfigError
from kamera.planner import (
    Choice,
    ChunkRecord,
    ConditionedRecord,
    OperatingPoint,
    PatchRecord,
    Plan,
    Request,
    RequestedChunk,
    StaticCatalog,
    plan,
)
from kamera.planner.lanes import MENU

P, A, B, C, X = "P", "A", "B", "C", "X"
LEADING, EXACT, ORBIT = OperatingPoint.LEADING, OperatingPoint.EXACT, OperatingPoint.ORBIT
SURVIVOR, RECALL, FORM = OperatingPoint.SURVIVOR, OperatingPoint.RECALL, OperatingPoint.FORM
SERVED = OperatingPoint.SERVED
TOKENS = 7


def exact(*antecedents: str) -> PatchRecord:
    return PatchRecord("the patch's own", "exact", antecedents, 8)


def orbit(*antecedents: str) -> PatchRecord:
    return PatchRecord("the orbit's own", "orbit", antecedents, 8)


def held(*antecedents: str, slot: str = "here") -> ConditionedRecord:
    return ConditionedRecord(antecedents, slot)


def known(*facts: PatchRecord | ConditionedRecord, evicted: bool = False) -> ChunkRecord:
    """A chunk with a canonical and these patches and conditioned KV."""
    return ChunkRecord(
        True,
        tuple(fact for fact in facts if isinstance(fact, PatchRecord)),
        tuple(fact for fact in facts if isinstance(fact, ConditionedRecord)),
        evicted,
    )


def bare(record: ChunkRecord) -> ChunkRecord:
    """The same, its canonical lost."""
    return record._replace(canonical=False)


def request(*chunks: str, pinned: bool = True) -> Request:
    named = (RequestedChunk(f"slot-{i}", c, TOKENS) for i, c in enumerate(chunks))
    return Request(tuple(named), pinned)


def last(window: tuple[str, ...], record: ChunkRecord, *, pinned: bool = True) -> Choice:
    """The choice for the last chunk of `window`, of which alone something is held."""
    made = plan(request(*window, pinned=pinned), StaticCatalog({window[-1]: record}))
    return made.chunks[-1].choice


TABLE = [
    # window, what is held of its last chunk -> point, a part of the reason
    ("nothing is known", (P, A), ChunkRecord(), FORM, "never seen"),
    ("leads, canonical", (A,), known(), LEADING, "deficit 0"),
    ("leads, canonical lost", (A,), bare(known()), FORM, "never seen"),
    ("leads, held", (A,), bare(known(held())), LEADING, "relocate"),
    ("held on the same", (P, A, B), known(held(P, A)), LEADING, "same antecedents"),
    ("held, no canonical needed", (P, A, B), bare(known(held(P, A))), LEADING, "relocate"),
    ("patch on the same", (P, A, B), known(exact(P, A)), EXACT, "rank 8"),
    ("patch, canonical lost", (P, A, B), bare(known(exact(P, A))), FORM, "chunk 2"),
    ("patch in another order", (P, A, C, B), known(exact(P, C, A)), FORM, "changed at chunk 1"),
    ("orbit in another order", (P, A, C, B), known(orbit(C, A, P)), ORBIT, "same 3"),
    ("orbit, canonical lost", (P, A, C, B), bare(known(orbit(C, A, P))), FORM, "chunk 0"),
    ("orbit of fewer", (P, A, C, B), known(orbit(P, A)), FORM, "chunk 2"),
    ("orbit of more", (P, A, B), known(orbit(P, A, C)), FORM, "chunk 2"),
    ("orbit counts repeats", (P, A, A, B), known(orbit(P, A, C)), FORM, "chunk 2"),
    ("orbit of a double isn't the single", (P, A, B), known(orbit(P, A, A)), FORM, "chunk 2"),
    ("head left", (P, C, B), known(held(P, A, C)), SURVIVOR, "1 leading antecedent left"),
    ("two heads left", (P, C, B), known(held(P, A, X, C)), SURVIVOR, "2 leading antecedents left"),
    ("all but the prefix left", (P, B), known(held(P, A, C)), SURVIVOR, "2 leading"),
    ("prefix and head left", (C, B), known(held(P, A, C)), SURVIVOR, "2 leading"),
    ("survivor needs no canonical", (P, C, B), bare(known(held(P, A, C))), SURVIVOR, "1 leading"),
    ("the middle left", (P, A, C, B), known(held(P, A, X, C)), FORM, "changed at chunk 2"),
    ("the last left", (P, A, B), known(held(P, A, C)), FORM, "changed at chunk 2"),
    ("one came in front", (P, A, C, B), known(held(P, C)), FORM, "changed at chunk 1"),
    ("order changed", (P, A, C, B), known(held(P, C, A)), FORM, "changed at chunk 1"),
    ("another prefix", (X, C, B), known(held(P, A, C)), FORM, "changed at chunk 0"),
    ("all left, canonical", (B,), known(held(A, C)), LEADING, "deficit 0"),
    ("all left, none held", (B,), bare(known(held(A, C))), FORM, "chunk 0"),
    ("evicted and back", (P, A, B), known(evicted=True), RECALL, "no patch was formed"),
    ("back, other patch", (P, A, B), known(exact(P, C), evicted=True), RECALL, "chunk 1"),
    ("back, canonical lost", (P, A, B), bare(known(evicted=True)), FORM, "never seen"),
    ("back behind the same", (P, A, B), known(exact(P, A), evicted=True), EXACT, "rank 8"),
    ("canonical alone", (P, A, B), known(), FORM, "no patch was formed"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "window", "record", "point", "reason"), TABLE)
def test_each_situation_gets_its_lane(
    case: str, window: tuple[str, ...], record: ChunkRecord, point: OperatingPoint, reason: str
) -> None:
    choice = last(window, record)
    assert (choice.point, reason in choice.reason) == (point, True), (case, choice)
    assert "\n" not in choice.reason
    assert choice.num_prefilled == (0 if point.is_free else TOKENS)


ALL = (held(P, A, C, slot="same"), exact(P, A, C), orbit(P, C, A), held(P, X, A, C, slot="head"))


@pytest.mark.parametrize("first", range(5))
def test_the_menus_order_is_cheapest_and_most_faithful_first(first: int) -> None:
    wanted = [LEADING, EXACT, ORBIT, SURVIVOR, RECALL]
    choice = last((P, A, C, B), known(*ALL[first:], evicted=True))
    assert choice.point is wanted[first]


def test_the_choice_names_what_it_is_served_from() -> None:
    window = (P, A, C, B)
    assert last(window, known(*ALL)).slot == "same"
    assert last(window, known(*ALL[1:])).patch == exact(P, A, C)
    assert last(window, known(*ALL[1:])).slot is None
    assert last(window, known(*ALL[2:])).patch == orbit(P, C, A)
    assert last(window, known(*ALL[3:])).slot == "head"


def test_without_a_pinned_prefix_a_middle_chunk_that_left_is_no_head() -> None:
    """[A, X, C, B] -> [A, C, B]: A still leads, so nothing of the head has left."""
    record = known(held(A, X, C))
    assert last((A, C, B), record, pinned=False).point is FORM
    assert last((A, C, B), record, pinned=True).point is SURVIVOR
    assert last((C, B), record, pinned=False).point is SURVIVOR


def test_the_prefix_is_no_antecedent_that_can_be_swapped() -> None:
    assert last((X, B), known(exact(P))).point is FORM
    assert last((B,), bare(known(exact(P)))).point is FORM


def test_one_chunk_in_two_places_is_planned_for_each() -> None:
    catalog = StaticCatalog({P: known(), A: known(held(P, slot="first"))})
    made = plan(request(P, A, A), catalog)
    assert [c.choice.point for c in made.chunks] == [LEADING, LEADING, FORM]
    assert made.chunks[2].antecedents == (P, A)


chunk_names = st.sampled_from([P, A, B, C, X])
behind = st.lists(chunk_names, max_size=4).map(tuple)
patches = st.tuples(st.sampled_from(["exact", "orbit"]), behind)
facts = st.tuples(
    st.booleans(),
    st.lists(patches, max_size=4),
    st.lists(st.tuples(behind, chunk_names), max_size=3),
    st.booleans(),
)
"""Plain data: beartype draws random numbers when records are made, which a strategy must not."""


def record_of(
    canonical: bool, patched: list[Any], conditioned: list[Any], evicted: bool
) -> ChunkRecord:
    return ChunkRecord(
        canonical,
        tuple(PatchRecord(f"{kind} {on}", kind, on, 4) for kind, on in patched),
        tuple(ConditionedRecord(on, slot) for on, slot in conditioned),
        evicted,
    )


@given(
    window=st.lists(chunk_names, min_size=1, max_size=5),
    held_facts=st.dictionaries(chunk_names, facts),
    pinned=st.booleans(),
)
def test_a_stale_patch_is_never_chosen(
    window: list[str], held_facts: dict[str, Any], pinned: bool
) -> None:
    catalog = StaticCatalog({chunk: record_of(*found) for chunk, found in held_facts.items()})
    wanted = request(*window, pinned=pinned)
    made = plan(wanted, catalog)
    assert [c.request for c in made.chunks] == list(wanted.chunks)
    for index, planned in enumerate(made.chunks):
        here, choice = tuple(window[:index]), planned.choice
        record = catalog.window(wanted.digests)[index]
        assert planned.antecedents == here
        if choice.patch is not None:
            assert choice.patch in record.patches
            assert record.canonical
            exactly = choice.patch.antecedents == here and choice.patch.kind == "exact"
            any_order = sorted(choice.patch.antecedents) == sorted(here)
            assert exactly or (choice.patch.kind == "orbit" and any_order)
        if choice.slot is not None:
            formed = [c.antecedents for c in record.conditioned if c.slot == choice.slot]
            ends = [f for f in formed if f[len(f) - len(here) :] == here or f[:1] == here[:1]]
            assert ends
        if choice.point is EXACT or choice.point is ORBIT:
            assert choice.patch is not None
        if choice.point is SURVIVOR:
            assert choice.slot is not None
        if choice.point in (FORM, RECALL):
            assert choice.num_prefilled == TOKENS
            assert choice.patch is None
            assert choice.slot is None
    assert made == plan(wanted, catalog), "pure: the same twice"


def test_a_patch_formed_behind_approximate_kv_is_served_behind_the_same_alone() -> None:
    """[P, A, B]: A is served by a patch, so B stands behind approximate KV, and so its own patch did."""
    alone = {P: known(), A: known(exact(P))}
    first = plan(request(P, A, B), StaticCatalog({**alone, B: known()})).chunks
    assert (first[1].name != A, first[2].choice.point) == (True, FORM)
    context = first[2].context
    patch = PatchRecord("name", "served", (P, A), 8, context)
    again = plan(request(P, A, B), StaticCatalog({**alone, B: known(patch)})).chunks
    assert (again[2].choice.point, again[2].choice.patch) == (SERVED, patch)
    assert again[2].name == first[2].name != B, "a served patch stands for what it was formed from"
    truth = {P: known(), A: known(held(P)), B: known(patch)}
    assert plan(request(P, A, B), StaticCatalog(truth)).chunks[2].choice.point is FORM
    orbited = {P: known(), A: known(orbit(P)), B: known(patch)}
    assert plan(request(P, A, B), StaticCatalog(orbited)).chunks[2].choice.point is FORM


def test_a_window_that_must_forget_keeps_no_survivor() -> None:
    catalog = StaticCatalog({P: known(), C: known(held(P)), B: known(held(P, A, C))})
    window = request(P, C, B)
    assert plan(window, catalog).chunks[2].choice.point is SURVIVOR
    assert plan(replace(window, keep_survivors=False), catalog).chunks[2].choice.point is FORM


def test_held_approximate_kv_keeps_its_lane_and_its_name() -> None:
    kept = ConditionedRecord((P,), "here", ORBIT, "name")
    made = plan(request(P, A), StaticCatalog({P: known(), A: known(kept)})).chunks[1]
    assert (made.choice.point, made.name) == (ORBIT, "name")
    formed = ConditionedRecord((P,), "here", FORM, "name")
    made = plan(request(P, A), StaticCatalog({P: known(), A: known(formed)})).chunks[1]
    assert (made.choice.point, made.name, made.choice.num_prefilled) == (LEADING, "name", 0)


def test_the_plan_adds_up_and_explains_each_chunk() -> None:
    made = plan(request(P, A, B), StaticCatalog({P: known(), A: known(exact(P))}))
    assert made.num_prefilled == TOKENS
    lines = made.explain().splitlines()
    assert len(lines) == 3
    for line, planned in zip(lines, made.chunks, strict=True):
        assert line.startswith(f"{planned.request.slot}: {planned.choice.point.value}")
        assert planned.choice.reason in line
    assert lines[2] == "slot-2: form (miss: never seen)"


def test_an_empty_request_is_an_empty_plan() -> None:
    made = plan(Request(()), StaticCatalog())
    assert made == Plan(())
    assert (made.num_prefilled, made.explain()) == (0, "")


def test_a_slot_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="each slot once"):
        Request((RequestedChunk("a", A, 1), RequestedChunk("a", B, 1)))


def test_the_last_lane_always_answers_and_every_point_has_one() -> None:
    assert MENU[-1].__name__ == "form"
    assert {lane.__name__ for lane in MENU} == {point.value for point in OperatingPoint}
