"""Reading ahead gives what the store gives, within its bounds, and ends."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from kamera.store import (
    DiskStore,
    Entry,
    EntryKey,
    Hit,
    MemoryStore,
    Miss,
    MissReason,
    ReadAhead,
    TieredStore,
)

MODEL = "a" * 64
MakeEntry = Callable[..., Entry]
FLOATS = 1000
ENTRY_BYTES = 4 * FLOATS
DEADLINE_S = 30.0


class Gated(DiskStore):
    """A disk store whose reads wait at a gate, so that a test decides when one is under way."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1 << 24)
        self.gate = threading.Event()
        self.gate.set()
        self.asked: list[EntryKey] = []
        self.by: list[str] = []
        self.fails_with: Exception | None = None

    def get(self, key: EntryKey, *, model: str, tenant: str | None) -> Hit | Miss:
        self.asked.append(key)
        self.by.append(threading.current_thread().name)
        found = super().get(key, model=model, tenant=tenant)
        if threading.current_thread().name.startswith("kamera-ahead"):
            assert self.gate.wait(DEADLINE_S)
            if self.fails_with is not None:
                raise self.fails_with
        return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Gated]:
    with Gated(tmp_path / "store") as opened:
        yield opened


def filled(store: DiskStore, make_entry: MakeEntry, count: int) -> list[EntryKey]:
    entries = [make_entry(name, FLOATS) for name in range(count)]
    for entry in entries:
        assert store.put(entry)
    return [entry.key for entry in entries]


def ahead(
    store: DiskStore | MemoryStore | TieredStore, keys: list[EntryKey], **bounds: int
) -> ReadAhead:
    return ReadAhead(store, keys, model=MODEL, tenant="acme", **bounds)


def get(source: ReadAhead, key: EntryKey) -> Hit | Miss:
    return source.get(key, model=MODEL, tenant="acme")


def tensor(found: Hit | Miss) -> torch.Tensor:
    assert isinstance(found, Hit), found
    return found.entry.tensors["k"]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("num_readers", [1, 3])
def test_what_is_read_ahead_is_what_the_store_has(
    store: Gated, make_entry: MakeEntry, num_readers: int
) -> None:
    keys = filled(store, make_entry, 12)
    with ahead(store, keys, num_readers=num_readers, max_bytes=3 * 8000) as source:
        until(lambda: source.num_held_bytes > 0)
        for name, key in enumerate(keys):
            assert torch.equal(tensor(get(source, key)), make_entry(name, FLOATS).tensors["k"])
        assert source.num_held_bytes == 0
    assert sorted(store.asked) == sorted(keys), "each was read once"
    assert source.num_served > 0
    assert source.num_stale == 0
    assert store.stats().hits == 12


def test_the_next_is_read_while_one_is_used(store: Gated, make_entry: MakeEntry) -> None:
    keys = filled(store, make_entry, 3)
    with ahead(store, keys) as source:
        get(source, keys[0])
        until(lambda: len(store.asked) == 3)  # nobody has asked for the others yet
        get(source, keys[1])
        get(source, keys[2])
    assert source.num_served == 2


def test_no_more_is_held_than_allowed(store: Gated, make_entry: MakeEntry) -> None:
    keys = filled(store, make_entry, 10)
    file_bytes = store.stats().num_bytes // 10
    with ahead(store, keys, max_bytes=3 * file_bytes + 100, num_readers=3) as source:
        until(lambda: source.num_held_bytes >= 3 * file_bytes)
        time.sleep(0.05)  # time enough to go too far
        assert source.num_held_bytes <= 3 * file_bytes + 100
        assert len(store.asked) == 3
        for key in keys[:2]:
            get(source, key)
        until(lambda: len(store.asked) >= 5)  # the caller's first, and one more ahead


def test_an_entry_over_the_bound_is_read_by_the_caller(store: Gated, make_entry: MakeEntry) -> None:
    keys = filled(store, make_entry, 3)
    with ahead(store, keys, max_bytes=100) as source:
        for name, key in enumerate(keys):
            assert torch.equal(tensor(get(source, key)), make_entry(name, FLOATS).tensors["k"])
        assert source.num_held_bytes == 0
    assert source.num_served == 0
    assert set(store.by) == {threading.current_thread().name}


def test_an_entry_that_was_replaced_meanwhile_is_read_again(
    store: Gated, make_entry: MakeEntry
) -> None:
    keys = filled(store, make_entry, 2)
    with ahead(store, keys) as source:
        until(lambda: len(store.asked) == 1)
        until(lambda: not any(slot.state.name == "READING" for slot in source._slots))
        newer = make_entry(1, tensors={"k": torch.full((7,), 5.0)})
        assert store.put(newer)
        assert torch.equal(tensor(get(source, keys[1])), newer.tensors["k"])
    assert (source.num_served, source.num_stale) == (0, 1)


@pytest.mark.parametrize("under_way", [True, False])
def test_an_entry_that_left_meanwhile_is_a_miss(
    store: Gated, make_entry: MakeEntry, under_way: bool
) -> None:
    keys = filled(store, make_entry, 2)
    if under_way:
        store.gate.clear()
    with ahead(store, keys) as source:
        until(lambda: len(store.asked) == 1)
        assert store.delete(keys[1])
        store.gate.set()
        found = get(source, keys[1])
    assert isinstance(found, Miss)
    assert found.reason is MissReason.UNKNOWN


def test_an_entry_that_was_evicted_meanwhile_is_a_miss_that_says_so(
    tmp_path: Path, make_entry: MakeEntry
) -> None:
    with DiskStore(tmp_path / "store", 350_000) as store:
        entries = [make_entry(name, 25_000) for name in range(5)]
        for entry in entries[:3]:
            assert store.put(entry)
        with ahead(store, [entries[0].key, entries[1].key]) as source:
            until(lambda: store.stats().hits == 1)
            store.get(entries[0].key, model=MODEL, tenant="acme")
            store.get(entries[2].key, model=MODEL, tenant="acme")
            assert store.put(entries[3])
            found = get(source, entries[1].key)
    assert isinstance(found, Miss)
    assert found.reason is MissReason.EVICTED


def test_what_came_meanwhile_is_given(store: Gated, make_entry: MakeEntry) -> None:
    first, late = filled(store, make_entry, 1)[0], make_entry(1, FLOATS)
    with ahead(store, [first, late.key]) as source:
        get(source, first)
        assert store.put(late)
        assert torch.equal(tensor(get(source, late.key)), late.tensors["k"])


def test_a_damaged_entry_is_the_same_miss_and_counted_once(
    store: Gated, make_entry: MakeEntry
) -> None:
    keys = filled(store, make_entry, 2)
    path = store._directory.file_of(keys[1])
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with ahead(store, keys) as source:
        until(lambda: len(store.asked) == 1)
        found = get(source, keys[1])
    assert isinstance(found, Miss)
    assert found.reason is MissReason.CORRUPT
    assert store.stats().misses[MissReason.CORRUPT] == 1
    assert store.stats().misses[MissReason.UNKNOWN] == 0


def test_an_error_that_nobody_foresaw_is_a_miss_that_says_it(
    store: Gated, make_entry: MakeEntry
) -> None:
    keys = filled(store, make_entry, 2)
    store.fails_with = MemoryError("all gone")
    with ahead(store, keys) as source:
        until(lambda: len(store.asked) == 1)
        found = get(source, keys[1])
    assert isinstance(found, Miss)
    assert found.reason is MissReason.UNREADABLE
    assert "MemoryError: all gone" in found.detail


def test_another_model_or_tenant_is_asked_of_the_store(store: Gated, make_entry: MakeEntry) -> None:
    keys = filled(store, make_entry, 2)
    with ahead(store, keys) as source:
        until(lambda: len(store.asked) == 1)
        found = source.get(keys[1], model="b" * 64, tenant="acme")
        assert isinstance(found, Miss)
        assert found.reason is MissReason.FOREIGN
        found = source.get(keys[1], model=MODEL, tenant=None)
        assert isinstance(found, Miss)
        assert found.reason is MissReason.FOREIGN


def test_those_in_front_of_what_is_asked_for_are_dropped(
    store: Gated, make_entry: MakeEntry
) -> None:
    keys = filled(store, make_entry, 6)
    with ahead(store, keys, num_readers=1) as source:
        until(lambda: len(store.asked) == 5)
        assert torch.equal(tensor(get(source, keys[4])), make_entry(4, FLOATS).tensors["k"])
        until(lambda: source.num_held_bytes <= store.stats().num_bytes // 6)  # the last alone
        assert torch.equal(tensor(get(source, keys[1])), make_entry(1, FLOATS).tensors["k"])
        assert torch.equal(tensor(get(source, keys[5])), make_entry(5, FLOATS).tensors["k"])


def test_a_key_may_stand_there_twice(store: Gated, make_entry: MakeEntry) -> None:
    one, two = filled(store, make_entry, 2)
    with ahead(store, [one, two, one, two]) as source:
        for key, name in ((one, 0), (two, 1), (one, 0), (two, 1), (one, 0)):
            assert torch.equal(tensor(get(source, key)), make_entry(name, FLOATS).tensors["k"])
        assert source.num_held_bytes == 0


def test_leaving_drops_the_rest_and_waits_for_what_runs(
    store: Gated, make_entry: MakeEntry
) -> None:
    keys = filled(store, make_entry, 50)
    store.gate.clear()
    source = ahead(store, keys, num_readers=2)
    until(lambda: len(store.asked) == 2)
    closer = threading.Thread(target=source.close)
    closer.start()
    until(lambda: source._closed)
    assert closer.is_alive(), "two reads are under way"
    store.gate.set()
    closer.join(DEADLINE_S)
    assert not closer.is_alive()
    assert len(store.asked) == 2
    assert source.num_held_bytes == 0
    assert not any(reader.is_alive() for reader in source._readers)
    assert isinstance(get(source, keys[7]), Hit), "a get after that asks the store"


def test_memory_is_not_read_ahead_and_starts_no_thread(make_entry: MakeEntry) -> None:
    store = MemoryStore(1 << 20)
    entries = [make_entry(name) for name in range(3)]
    for entry in entries:
        store.put(entry)
    with ahead(store, [entry.key for entry in entries]) as source:
        assert source._readers == []
        for entry in entries:
            assert torch.equal(tensor(get(source, entry.key)), entry.tensors["k"])


def test_a_tiered_store_is_read_ahead_from_its_disk_alone(
    tmp_path: Path, make_entry: MakeEntry
) -> None:
    entries = [make_entry(name, FLOATS) for name in range(4)]
    with TieredStore(MemoryStore(1 << 20), DiskStore(tmp_path / "store", 1 << 20)) as store:
        for entry in entries:
            store.put(entry)
        for entry in entries[2:]:
            store.memory.delete(entry.key)
        with ahead(store, [entry.key for entry in entries]) as source:
            assert len(source._slots) == 2
            until(lambda: store.stats().tiers["disk"].hits == 2)
            for entry in entries:
                assert torch.equal(tensor(get(source, entry.key)), entry.tensors["k"])
        assert source.num_served == 2, "promotion into memory isn't another version"
        assert store.stats().tiers["disk"].hits == 2
