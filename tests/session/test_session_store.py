"""What a store may do to a session: help it, or cost it a prefill. Never a wrong answer."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from session_reference import admit_all, ask, costs, error, points, shown

from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.planner import OperatingPoint
from kamera.session import Answer, Session
from kamera.store import (
    DiskStore,
    Entry,
    EntryKey,
    Hit,
    MemoryStore,
    Miss,
    MissReason,
    Store,
    open_store,
)

EXACT = 1e-6
WINDOW = "abc"


@pytest.fixture
def written(open_session: Any, picture: Any, tmp_path: Path) -> tuple[Path, Answer]:
    """A folder in which a session left all that it learned of a window, and its answer."""
    folder = tmp_path / "store"
    session = open_session(store=open_store(folder))
    admit_all(session, picture, WINDOW)
    answer = ask(session)
    session.close()
    return folder, answer


def show(session: Session, picture: Any) -> Any:
    return session.show([shown(picture, name) for name in WINDOW])


def corruptions(session: Session) -> int:
    return sum(n for reason, n in session.library.misses.items() if not reason.endswith("unknown"))


def test_a_restart_sees_nothing_and_prefills_nothing(
    open_session: Any, picture: Any, written: tuple[Path, Answer]
) -> None:
    folder, answer = written
    session = open_session(store=open_store(folder))
    runs = session.engine.num_vision_runs
    outcome = show(session, picture)
    assert costs(outcome) == (0, 0)
    assert outcome.num_formed == 0
    assert [c.point.value for c in outcome.chunks] == ["leading", "exact", "exact", "exact"]
    again = ask(session)
    assert session.engine.num_vision_runs == runs
    assert (again.token_ids, again.text) == (answer.token_ids, answer.text)
    assert error(session) <= EXACT
    assert corruptions(session) == 0


def test_two_restarts_give_bit_identical_logits(
    open_session: Any, picture: Any, written: tuple[Path, Answer]
) -> None:
    logits = []
    for _ in range(2):
        with open_session(store=open_store(written[0])) as session:
            show(session, picture)
            logits.append(ask(session).logits)
    assert logits[0].equal(logits[1])


def flip(content: bytes) -> bytes:
    if not content:
        return content
    at = len(content) * 3 // 4
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a bit flipped": flip,
    "truncated": lambda content: content[: len(content) // 2],
    "emptied": lambda _: b"",
    "overwritten": lambda content: b"\x80\x04." * (len(content) // 3),
}


@pytest.mark.parametrize("index", ["index kept", "index too"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_counted_misses_and_the_answer_is_right(
    open_session: Any, picture: Any, written: tuple[Path, Answer], damage: str, index: str
) -> None:
    folder, answer = written
    files = [path for path in folder.rglob("*") if path.is_file()]
    entries = [path for path in files if path.suffix == ".safetensors"]
    assert len(entries) >= 4 + 3 + 3  # canonicals, patches, embeddings
    for path in files if index == "index too" else entries:
        path.write_bytes(DAMAGE[damage](path.read_bytes()))
    session = open_session(store=open_store(folder))
    outcome = show(session, picture)
    assert {c.point for c in outcome.chunks} <= {OperatingPoint.FORM, OperatingPoint.RECALL}
    assert outcome.num_prefilled == sum(c.num_tokens for c in outcome.chunks)
    assert error(session) <= EXACT
    assert ask(session).token_ids == answer.token_ids
    if index == "index kept":
        assert corruptions(session) > 0
        assert any("miss: " in c.reason for c in outcome.chunks)
    session.close()
    healed = open_session(store=open_store(folder))
    assert costs(show(healed, picture)) == (0, 0), "what was lost has been written anew"
    assert error(healed) <= EXACT


@pytest.mark.parametrize("kind", ["canonical", "patch", "vision"])
def test_one_kind_of_entry_lost_costs_that_kind_alone(
    open_session: Any, picture: Any, written: tuple[Path, Answer], kind: str
) -> None:
    store = open_store(written[0])
    for key in store.keys():  # noqa: SIM118  (a store isn't a mapping)
        if key.kind == kind:
            assert store.delete(key)
    session = open_session(store=store)
    outcome = show(session, picture)
    expected = {"canonical": 0, "patch": 0, "vision": 0} | {"vision": 3 * (kind == "vision")}
    if kind == "vision":
        assert costs(outcome) == (0, 0), "embeddings are for prefilling alone"
    else:
        assert outcome.num_prefilled > 0
        assert outcome.num_vision_runs == expected["canonical"]
    assert error(session) <= EXACT


class Losing(MemoryStore):
    """A store over another one that lists what it can't give: `lost`."""

    def __init__(self, true: Store, lost: EntryKey) -> None:
        super().__init__(1 << 30)
        self.true, self.lost = true, lost

    def contains_each(self, kind: Any, digests: Any) -> Any:
        return self.true.contains_each(kind, digests)

    def may_contain(self, kind: str) -> bool:
        return self.true.may_contain(kind)

    def get(self, key: EntryKey, *, model: str, tenant: str | None) -> Any:
        if key == self.lost:
            return Miss(MissReason.CORRUPT, "it is damaged")
        return self.true.get(key, model=model, tenant=tenant)


def test_a_served_patch_serves_no_other_window_than_it_was_formed_behind(
    open_session: Any, picture: Any
) -> None:
    """The patch in front can't be read: what is prefilled in its place is exact, and so is what follows."""
    store, seen = MemoryStore(1 << 30), [shown(picture, name) for name in "ab"]
    first = open_session(store=store)
    first.show(seen)
    front, behind = first.plan().chunks[1:]
    record = first.library.record(first._chunks[front.request.chunk], "exact", front.antecedents)
    exact = first.library.record(first._chunks[behind.request.chunk], "exact", behind.antecedents)
    assert store.delete(EntryKey("patch", exact.name))
    formed = open_session(store=store).show(seen)
    assert [c.point.value for c in formed.chunks] == ["leading", "exact", "form"]
    assert store.delete(EntryKey("patch", exact.name)) is False
    again = open_session(store=store).show(seen)
    assert [c.point.value for c in again.chunks] == ["leading", "exact", "served"]
    session = open_session(store=Losing(store, EntryKey("patch", record.name)))
    outcome = session.show(seen)
    assert [c.point.value for c in outcome.chunks] == ["leading", "form", "form"]
    assert "behind what stands in front now" in outcome.chunks[2].reason
    assert all(c.exact for c in outcome.chunks)
    assert error(session) <= EXACT


def test_another_models_store_is_never_used(
    open_session: Any, other_tiny: Path, picture: Any, written: tuple[Path, Answer]
) -> None:
    other = HFEngine.from_pretrained(other_tiny)
    session = open_session(store=open_store(written[0]), on=other)
    outcome = show(session, picture)
    assert [c.point for c in outcome.chunks] == [OperatingPoint.FORM] * 4
    assert outcome.num_vision_runs == 3
    assert sum(session.library.misses.values()) > 0
    assert error(session) <= EXACT


class Forged(MemoryStore):
    """A store that answers every key with an entry of this model that `forge` has changed."""

    def __init__(self, true: Store, forge: Callable[[Entry], Entry]) -> None:
        super().__init__(1 << 30)
        self.true, self.forge = true, forge

    def contains(self, key: Any) -> bool:
        return self.true.contains(key)

    def contains_each(self, kind: Any, digests: Any) -> Any:
        return self.true.contains_each(kind, digests)

    def may_contain(self, kind: Any) -> Any:
        return self.true.may_contain(kind)

    def get(self, key: Any, *, model: str, tenant: str | None) -> Any:
        found = self.true.get(key, model=model, tenant=tenant)
        return Hit(self.forge(found.entry)) if isinstance(found, Hit) else found


def one_token_less(entry: Entry) -> Entry:
    if entry.key.kind == "vision":
        return entry
    tensors = {
        name: tensor if name.endswith(".vt") else tensor[:, 1:]
        for name, tensor in entry.tensors.items()
    }
    return replace(entry, tensors=tensors)


def test_an_entry_of_another_length_is_a_counted_miss(
    open_session: Any, picture: Any, written: tuple[Path, Answer]
) -> None:
    """275 tokens against 256 embeddings (SGLang 2151): whatever the digest says, count the tokens."""
    store = Forged(open_store(written[0]), one_token_less)
    session = open_session(store=store)
    outcome = show(session, picture)
    assert outcome.num_prefilled == sum(c.num_tokens for c in outcome.chunks)
    assert session.library.misses["canonical.foreign"] > 0
    assert error(session) <= EXACT
    store.true.close()


@pytest.mark.parametrize("cap", [1, 5000, 60_000, 200_000])
def test_a_store_without_room_gives_right_answers(
    open_session: Any, picture: Any, tmp_path: Path, cap: int
) -> None:
    for store in (MemoryStore(cap), DiskStore(tmp_path / "d", cap)):
        session = open_session(store=store, form_leading=False)
        admit_all(session, picture, WINDOW)
        assert error(session) <= EXACT
        session.show([])
        show(session, picture)
        assert error(session) <= EXACT
        assert store.stats().num_bytes <= cap


def test_entries_that_vanish_between_plan_and_read_are_misses(
    open_session: Any, picture: Any, written: tuple[Path, Answer]
) -> None:
    class Vanishing(Forged):
        def get(self, key: Any, *, model: str, tenant: str | None) -> Any:
            self.true.delete(key)
            return self.true.get(key, model=model, tenant=tenant)

    session = open_session(store=Vanishing(open_store(written[0]), lambda entry: entry))
    outcome = show(session, picture)
    assert all(c.point is OperatingPoint.FORM for c in outcome.chunks)
    assert all(c.reason.startswith("miss: ") for c in outcome.chunks)
    assert error(session) <= EXACT


def test_a_closed_store_costs_prefills_alone(open_session: Any, picture: Any) -> None:
    store = MemoryStore(1 << 30)
    session = open_session(store=store)
    admit_all(session, picture, "ab")
    store.close()
    session.admit(shown(picture, "c"), name="c")
    assert error(session) <= EXACT


def test_ranks_do_not_share_patches(open_session: Any, picture: Any) -> None:
    store = MemoryStore(1 << 30)
    low = open_session(store=store, rank=2)
    admit_all(low, picture, WINDOW)
    full = open_session(store=store)
    outcome = show(full, picture)
    assert points(outcome)[outcome.chunks[3].name] == "form"
    assert error(full) <= EXACT


def test_what_is_stored_is_position_free(open_session: Any, picture: Any) -> None:
    """A chunk that was first met at the end is the same entry as one first met in front."""
    stored = []
    for order in ("abc", "cba"):
        store = MemoryStore(1 << 30)
        session = open_session(store=store)
        admit_all(session, picture, order)
        chunk = session.engine.image_chunk(shown(picture, "c"))
        found = session.library.canonical(chunk)
        stored.append(found.tensors)
    for name in ("k", "v"):
        assert torch.equal(stored[0][name], stored[1][name])


def test_misses_name_their_reason(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, "a")
    assert set(session.library.misses) <= {
        f"{kind}.{reason.value}"
        for kind in ("canonical", "patch", "vision")
        for reason in MissReason
    }
    assert session.library.misses["canonical.unknown"] >= 1


def test_a_closed_session_says_so(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, WINDOW)
    session.close()
    verbs = (
        lambda: ask(session),
        lambda: session.admit(shown(picture, "d"), name="d"),
        session.slide,
        lambda: session.reorder(["c", "b", "a"]),
        lambda: show(session, picture),
        session.form_pending,
        session.prepare_reorders,
    )
    for verb in verbs:
        with pytest.raises(ConfigError, match="session is closed"):
            verb()
    session.close()
