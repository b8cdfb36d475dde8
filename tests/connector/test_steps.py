"""A request's steps: the longest front that is held, then the engine's, named as if no more were known."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from kamera.engines.vllm.steps import Formed, Shelf, steps_of
from kamera.library import Library
from kamera.planner import (
    ChunkRecord,
    PatchKind,
    PatchRecord,
    Request,
    RequestedChunk,
    plan,
)
from kamera.store import MemoryStore
from listed_chunks import CHUNKS, MODEL, put

KINDS: tuple[PatchKind, ...] = ("exact", "orbit", "served")


class CutShort:
    """A shelf that knows nothing of chunks from `limit` on."""

    def __init__(self, shelf: Shelf, limit: int) -> None:
        self.shelf, self.limit = shelf, limit

    def window(self, chunks: tuple[str, ...]) -> list[ChunkRecord]:
        unknown = [ChunkRecord()] * (len(chunks) - self.limit)
        return self.shelf.window(chunks)[: self.limit] + unknown

    def served(
        self, chunks: tuple[str, ...], contexts: Mapping[int, str]
    ) -> Mapping[int, PatchRecord]:
        return self.shelf.served(chunks, contexts)


@given(
    order=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    canonicals=st.sets(st.integers(0, 3)),
    patches=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(KINDS)), max_size=8),
    formed=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.integers(0, 3), min_size=1)), max_size=3
    ),
)
def test_steps_are_those_of_a_plan_that_knows_nothing_behind_the_first_that_is_missing(
    order: list[int],
    canonicals: set[int],
    patches: list[tuple[int, PatchKind]],
    formed: list[tuple[int, list[int]]],
) -> None:
    library = Library(MemoryStore(1 << 20), MODEL.digest, None, 4)
    shelf, chunks = Shelf(library, Formed()), [CHUNKS[number] for number in order]
    request = Request(
        tuple(RequestedChunk(str(i), c.digest, c.num_tokens) for i, c in enumerate(chunks)),
        pinned=True,
    )
    for number in canonicals:
        put(library, "canonical", CHUNKS[number].digest)
    for number, behind in formed:
        record = library.record(CHUNKS[number], "exact", [CHUNKS[n].digest for n in behind])
        put(library, "patch", record.name)
        shelf.formed.add(CHUNKS[number].digest, record)
    for place, kind in patches:
        if place < len(order):
            found = plan(request, shelf).chunks[place]
            if kind != "served" or found.context:
                record = library.record(chunks[place], kind, found.antecedents, found.context)
                put(library, "orbit" if kind == "orbit" else "patch", record.name)
    whole = plan(request, shelf).chunks
    first = next((i for i, c in enumerate(whole) if not c.choice.point.is_free), len(whole))
    expected = plan(request, CutShort(shelf, first)).chunks
    steps = steps_of(chunks, shelf, keep_survivors=True)
    assert [step.held for step in steps] == [i < first for i in range(len(chunks))]
    assert [step.name for step in steps] == [planned.name for planned in expected]
    assert [step.point for step in steps[:first]] == [c.choice.point.value for c in whole[:first]]
    assert {step.point for step in steps[first:]} <= {"prefill"}
    for step, planned in zip(steps[:first], whole[:first], strict=True):
        if planned.choice.slot is None:
            assert step.patch == planned.choice.patch
        else:
            assert step.patch is not None
            assert step.patch.name == planned.choice.slot.partition(" ")[2]


def test_a_survivor_of_an_orbit_patch_is_of_the_order_that_it_is_served_for() -> None:
    library, formed = Library(MemoryStore(1 << 20), MODEL.digest, None, 4), Formed()
    first, second, third = CHUNKS[:3]
    for chunk in (first, third):
        put(library, "canonical", chunk.digest)
    behind = [second.digest, CHUNKS[3].digest, first.digest]
    others = [behind[1], behind[0], behind[2]]
    records = [library.record(third, "orbit", order) for order in (behind, others)]
    put(library, "orbit", records[0].name)
    assert records[0].name == records[1].name
    for order in (records, records[::-1]):
        for record in order:
            formed.add(third.digest, record)
        shelf = Shelf(library, formed)
        steps = steps_of([first, third], shelf, keep_survivors=True)
        assert [step.point for step in steps] == ["leading", "survivor"]
        assert steps[1].patch == order[-1]  # the latest, whose antecedents are in the name
