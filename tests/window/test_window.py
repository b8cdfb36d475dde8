"""The window's verbs, and a machine that plays them in any order."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kamera.errors import ChunkNotFoundError, ConfigError
from kamera.window import Slot, Window


def slot(name: str) -> Slot:
    return Slot(name, f"digest of {name}")


def window(inside: str, gone: str = "", capacity: int | None = None) -> Window:
    return Window(capacity, tuple(map(slot, inside)), tuple(map(slot, gone)))


def left(of: Window) -> str:
    return "".join(s.name for s in of.evicted)


def inside(of: Window) -> str:
    return "".join(of.names)


def test_admit_appends() -> None:
    after = window("ab", "x").admit(slot("c"))
    assert (inside(after), left(after)) == ("abc", "x")


def test_admit_into_a_full_window_evicts_the_oldest() -> None:
    after = window("ab", "x", 2).admit(slot("c"))
    assert (inside(after), left(after)) == ("bc", "xa")


@pytest.mark.parametrize("name", ["a", "b", "x"])
def test_admit_refuses_a_name_that_is_in_or_has_left(name: str) -> None:
    with pytest.raises(ConfigError, match="taken"):
        window("ab", "x").admit(slot(name))


def test_admit_takes_the_same_chunk_under_two_names() -> None:
    after = window("a").admit(Slot("b", slot("a").chunk))
    assert inside(after) == "ab"


@pytest.mark.parametrize(("count", "stays", "gone"), [(1, "bc", "xa"), (3, "", "xabc")])
def test_slide_evicts_from_the_front(count: int, stays: str, gone: str) -> None:
    after = window("abc", "x").slide(count)
    assert (inside(after), left(after)) == (stays, gone)


@pytest.mark.parametrize("count", [0, -1, 4])
def test_slide_refuses_what_it_cannot_do(count: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"slide by {count}: expected a whole number from 1 to 3"
    ):
        window("abc").slide(count)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_slide_of_an_empty_window_says_that_it_is_empty(count: int) -> None:
    with pytest.raises(ConfigError, match="no chunk is in the window"):
        window("", "x").slide(count)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("wrong", [1.0, "1", True, float("nan")])
def test_what_is_no_whole_number_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="whole number"):
        window("abc").slide(wrong)
    with pytest.raises(ConfigError, match="whole number"):
        window("ab", "x").recall("x", wrong)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("wrong", [1, None, b"x"])
def test_a_name_that_is_no_text_is_one_that_is_not_there(wrong: Any) -> None:
    with pytest.raises(ChunkNotFoundError, match="No chunk"):
        window("ab", "x").recall(wrong)
    with pytest.raises(ChunkNotFoundError, match="No chunk"):
        window("ab", "x").reorder([wrong, "b"])


def test_reorder_is_a_permutation() -> None:
    after = window("abc", "x").reorder(["c", "a", "b"])
    assert (inside(after), left(after)) == ("cab", "x")
    assert {s.name: s.chunk for s in after.slots} == {n: slot(n).chunk for n in "abc"}


@pytest.mark.parametrize("names", [["a", "b"], ["a", "a", "b"], ["a", "b", "c", "c"], []])
def test_reorder_refuses_names_missing_or_doubled(names: list[str]) -> None:
    with pytest.raises(ConfigError, match="each of"):
        window("abc").reorder(names)


def test_reorder_refuses_a_name_that_has_left() -> None:
    with pytest.raises(ChunkNotFoundError, match="'x'"):
        window("abc", "x").reorder(["a", "b", "x"])


@pytest.mark.parametrize(("at", "stays"), [(None, "abx"), (0, "xab"), (1, "axb"), (2, "abx")])
def test_recall_brings_one_back(at: int | None, stays: str) -> None:
    after = window("ab", "wxy").recall("x", at)
    assert (inside(after), left(after)) == (stays, "wy")


@pytest.mark.parametrize(("at", "stays"), [(None, "bx"), (0, "xb"), (1, "bx")])
def test_recall_into_a_full_window_evicts_the_oldest(at: int | None, stays: str) -> None:
    after = window("ab", "x", 2).recall("x", at)
    assert (inside(after), left(after)) == (stays, "a")


def test_recall_into_a_window_of_one_swaps() -> None:
    after = window("a", "x", 1).recall("x")
    assert (inside(after), left(after)) == ("x", "a")


@pytest.mark.parametrize("at", [-1, 3])
def test_recall_refuses_an_index_outside(at: int) -> None:
    with pytest.raises(ConfigError, match="index"):
        window("ab", "x").recall("x", at)


def test_recall_of_a_full_window_counts_the_index_after_the_oldest_left() -> None:
    with pytest.raises(ConfigError, match="0 to 1"):
        window("ab", "x", 2).recall("x", 2)


def test_reorder_refuses_a_text_for_a_list() -> None:
    with pytest.raises(ConfigError, match="list of names"):
        window("ab").reorder("ab")


@pytest.mark.parametrize("name", ["a", "nobody"])
def test_recall_refuses_what_has_not_left(name: str) -> None:
    with pytest.raises(ChunkNotFoundError, match=r"evicted|is in the window"):
        window("a", "x").recall(name)


def test_an_unknown_name_gets_a_suggestion() -> None:
    full = Window(None, (slot("frame-10"),), (slot("screenshot-3"),))
    with pytest.raises(ChunkNotFoundError, match="did you mean 'screenshot-3'"):
        full.recall("screenshot-4")
    with pytest.raises(ChunkNotFoundError, match=r"it holds \['frame-10'\]"):
        full.reorder(["zzz"])


def test_show_is_exactly_that_and_remembers_what_left() -> None:
    after = window("abc", "xy").show([slot("x"), slot("c"), slot("n")])
    assert (inside(after), left(after)) == ("xcn", "yab")
    assert left(after.show([])) == "yabxcn"


def test_show_refuses_doubles_and_more_than_fits() -> None:
    with pytest.raises(ConfigError, match="once"):
        window("a").show([slot("b"), slot("b")])
    with pytest.raises(ConfigError, match="full"):
        window("a", capacity=2).show([slot(n) for n in "abc"])


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_window_without_room_is_refused(capacity: int) -> None:
    with pytest.raises(ConfigError, match="capacity"):
        Window(capacity)


names = st.text(max_size=3)
"""Any text: empty, blank, control characters, other scripts."""


class AnyVerbs(RuleBasedStateMachine):
    """Names stay unique, capacity is kept, and nobody is lost, whatever is done."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window(3)
        self.admitted: dict[str, str] = {}

    def keeps(self, before: Window, kept: tuple[object, ...]) -> None:
        """Verbs make new windows."""
        assert (before.slots, before.evicted) == kept

    @rule(name=names, chunk=st.sampled_from("pqr"))
    def admit(self, name: str, chunk: str) -> None:
        before, kept = self.window, (self.window.slots, self.window.evicted)
        if name in self.admitted:
            with pytest.raises(ConfigError):
                self.window.admit(Slot(name, chunk))
        else:
            self.window = self.window.admit(Slot(name, chunk))
            self.admitted[name] = chunk
            assert self.window.names[-1] == name
        self.keeps(before, kept)

    @rule(count=st.integers(-1, 4))
    def slide(self, count: int) -> None:
        before, kept = self.window, (self.window.slots, self.window.evicted)
        if 1 <= count <= len(before.slots):
            self.window = self.window.slide(count)
            assert self.window.slots == before.slots[count:]
        else:
            with pytest.raises(ConfigError):
                self.window.slide(count)
        self.keeps(before, kept)

    @rule(data=st.data())
    def reorder(self, data: st.DataObject) -> None:
        before, kept = self.window, (self.window.slots, self.window.evicted)
        order = data.draw(st.permutations(before.names))
        self.window = self.window.reorder(order)
        assert self.window.names == tuple(order)
        self.keeps(before, kept)

    @precondition(lambda self: self.window.evicted)
    @rule(data=st.data(), at=st.none() | st.integers(0, 2))
    def recall(self, data: st.DataObject, at: int | None) -> None:
        before, kept = self.window, (self.window.slots, self.window.evicted)
        name = data.draw(st.sampled_from([s.name for s in before.evicted]))
        room = min(len(before.slots), 2)
        if at is not None and at > room:
            with pytest.raises(ConfigError):
                self.window.recall(name, at)
        else:
            self.window = self.window.recall(name, at)
            assert self.window.names[room if at is None else at] == name
        self.keeps(before, kept)

    @precondition(lambda self: self.admitted)
    @rule(data=st.data())
    def show(self, data: st.DataObject) -> None:
        before, kept = self.window, (self.window.slots, self.window.evicted)
        some = st.lists(st.sampled_from(sorted(self.admitted)), max_size=3, unique=True)
        shown = [Slot(name, self.admitted[name]) for name in data.draw(some)]
        self.window = self.window.show(shown)
        assert list(self.window.slots) == shown
        self.keeps(before, kept)

    @invariant()
    def nobody_is_lost_or_doubled(self) -> None:
        everyone = [*self.window.slots, *self.window.evicted]
        assert len({s.name for s in everyone}) == len(everyone)
        assert {s.name: s.chunk for s in everyone} == self.admitted

    @invariant()
    def capacity_is_kept(self) -> None:
        assert len(self.window.slots) <= 3
        assert self.window.capacity == 3


TestAnyVerbs = AnyVerbs.TestCase
TestAnyVerbs.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize(("bound", "gone"), [(None, "xyab"), (3, "yab"), (1, "b"), (0, "")])
def test_those_that_left_first_are_forgotten(bound: int | None, gone: str) -> None:
    before = Window(None, tuple(map(slot, "abc")), tuple(map(slot, "xy")), bound)
    assert left(before.slide(2)) == gone
    assert left(before.show([slot("c")])) == gone
    assert before.slide(2).max_evicted == bound


def test_what_comes_back_isnt_forgotten_on_the_way() -> None:
    full = Window(2, tuple(map(slot, "ab")), tuple(map(slot, "x")), 1)
    after = full.recall("x")
    assert (inside(after), left(after)) == ("bx", "a")


def test_a_bound_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_evicted"):
        Window(max_evicted=-1)
