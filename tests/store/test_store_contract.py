"""What every store promises, run over each of them."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from kamera.errors import ConfigError
from kamera.store import Entry, EntryKey, Hit, Miss, MissReason, PutReason, Store
from kamera.store.entry import DTYPE_NAMES

MODEL, OTHER_MODEL = "a" * 64, "b" * 64
MakeEntry = Callable[..., Entry]
OpenStore = Callable[..., Store]

LARGE = 25_000  # float32 values: 100 kB, so that a file's header doesn't matter
CAP = 350_000  # three of them


def get(store: Store, key: EntryKey) -> Hit | Miss:
    return store.get(key, model=MODEL, tenant="acme")


def assert_same(left: Entry, right: Entry) -> None:
    assert (left.key, left.model, left.tenant) == (right.key, right.model, right.tenant)
    assert left.attributes == right.attributes
    assert left.tensors.keys() == right.tensors.keys()
    for name, tensor in left.tensors.items():
        assert (tensor.dtype, tensor.shape) == (
            right.tensors[name].dtype,
            right.tensors[name].shape,
        )
        assert torch.equal(tensor, right.tensors[name])


def assert_miss(found: Hit | Miss, reason: MissReason) -> None:
    assert isinstance(found, Miss)
    assert found.reason is reason
    assert found.detail


def test_what_was_put_is_got(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store, entry = open_kind(), make_entry()
    assert store.put(entry)
    found = get(store, entry.key)
    assert isinstance(found, Hit)
    assert_same(found.entry, entry)
    assert store.contains(entry.key)
    assert store.keys() == [entry.key]


@pytest.mark.parametrize(
    "dtype",
    list(DTYPE_NAMES),
)
def test_every_dtype_and_odd_shape_comes_back(
    open_kind: OpenStore, make_entry: MakeEntry, dtype: torch.dtype
) -> None:
    values = torch.arange(15).to(dtype)
    tensors = {
        "dense": values.reshape(3, 5),
        "scalar": values[3],
        "one": values[2:3],
        "empty": values[:0].reshape(0, 7),
        "strided": values[::2],
        "byte": torch.arange(3, dtype=torch.uint8),
        "wide": torch.arange(3, dtype=torch.float64),
    }
    store, entry = open_kind(), make_entry(tensors=tensors)
    assert store.put(entry)
    found = get(store, entry.key)
    assert isinstance(found, Hit)
    for name, tensor in tensors.items():
        got = found.entry.tensors[name]
        assert got.dtype == tensor.dtype
        assert got.shape == tensor.shape
        assert got.is_contiguous()
        assert torch.equal(got.to(torch.float64), tensor.to(torch.float64))


def test_an_entry_without_tensors_is_fine(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store, entry = open_kind(), make_entry(tensors={})
    assert store.put(entry)
    assert get(store, entry.key)


def test_put_takes_a_copy(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store, pool = open_kind(), torch.zeros(4)
    entry = make_entry(tensors={"k": pool[:2]})
    store.put(entry)
    pool.fill_(7)
    found = get(store, entry.key)
    assert isinstance(found, Hit)
    assert found.entry.tensors["k"].tolist() == [0, 0]


def test_an_unknown_key_is_a_counted_miss(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store = open_kind()
    assert_miss(get(store, make_entry().key), MissReason.UNKNOWN)
    assert store.stats().misses[MissReason.UNKNOWN] == 1
    assert store.stats().misses[MissReason.CORRUPT] == 0


@pytest.mark.parametrize(
    ("model", "tenant"), [(OTHER_MODEL, "acme"), (MODEL, "globex"), (MODEL, None), (MODEL, "")]
)
def test_another_model_or_tenant_misses_where_the_owner_hits(
    open_kind: OpenStore, make_entry: MakeEntry, model: str, tenant: str | None
) -> None:
    store, entry = open_kind(), make_entry()
    store.put(entry)
    assert_miss(store.get(entry.key, model=model, tenant=tenant), MissReason.FOREIGN)
    assert get(store, entry.key)
    assert_miss(store.get(entry.key, model=model, tenant=tenant), MissReason.FOREIGN)
    assert store.stats().misses[MissReason.FOREIGN] == 2
    assert store.stats().quarantined == 0


def test_no_tenant_and_the_empty_tenant_are_two(
    open_kind: OpenStore, make_entry: MakeEntry
) -> None:
    store, entry = open_kind(), make_entry(tenant=None)
    store.put(entry)
    assert not store.get(entry.key, model=MODEL, tenant="")
    assert store.get(entry.key, model=MODEL, tenant=None)


def test_a_kind_is_a_part_of_the_key(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store, entry = open_kind(), make_entry()
    store.put(entry)
    assert_miss(get(store, EntryKey("conditioned", entry.key.digest)), MissReason.UNKNOWN)


def test_a_second_put_replaces_the_first(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store = open_kind()
    store.put(make_entry())
    newer = make_entry(tensors={"v": torch.ones(2)})
    assert store.put(newer)
    found = get(store, newer.key)
    assert isinstance(found, Hit)
    assert_same(found.entry, newer)
    assert store.stats().num_entries == 1


def test_the_least_recently_used_leaves_first(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store = open_kind(CAP)
    entries = [make_entry(name, LARGE) for name in range(4)]
    for entry in entries[:3]:
        assert store.put(entry)
    assert get(store, entries[0].key)
    assert store.put(entries[3])
    assert_miss(get(store, entries[1].key), MissReason.EVICTED)
    for index in (0, 2, 3):
        assert get(store, entries[index].key)
    assert store.stats().misses[MissReason.EVICTED] == 1


def test_an_evicted_entry_can_come_back(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store = open_kind(CAP)
    entries = [make_entry(name, LARGE) for name in range(4)]
    for entry in (*entries, entries[0]):
        assert store.put(entry)
    assert get(store, entries[0].key)
    store.delete(entries[0].key)
    assert_miss(get(store, entries[0].key), MissReason.UNKNOWN)


def test_a_pinned_entry_is_never_evicted(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store = open_kind(CAP)
    entries = [make_entry(name, LARGE) for name in range(6)]
    store.put(entries[0])
    with store.pin(entries[0].key) as present, store.pin(entries[0].key):
        assert present
        for entry in entries[1:]:
            assert store.put(entry)
            assert get(store, entries[0].key)
        assert store.stats().num_pinned == 1
        assert not store.delete(entries[0].key)
    assert store.stats().num_pinned == 0
    assert store.delete(entries[0].key)
    assert not store.delete(entries[0].key)


def test_a_pin_protects_a_key_that_comes_later(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store = open_kind(CAP)
    with store.pin(make_entry(0).key) as present:
        assert not present
        for name in range(6):
            assert store.put(make_entry(name, LARGE))
        assert get(store, make_entry(0).key)


def test_no_room_among_pinned_entries_is_a_typed_result(
    open_kind: OpenStore, make_entry: MakeEntry
) -> None:
    store = open_kind(CAP)
    first = make_entry(0, 2 * LARGE)
    store.put(first)
    with store.pin(first.key):
        result = store.put(make_entry(1, 2 * LARGE))
        assert not result
        assert result.reason is PutReason.NO_ROOM
    assert store.put(make_entry(1, 2 * LARGE))
    assert store.stats().failed_puts[PutReason.NO_ROOM] == 1


def test_an_entry_over_the_cap_is_refused_and_evicts_nothing(
    open_kind: OpenStore, make_entry: MakeEntry
) -> None:
    store = open_kind(CAP)
    store.put(make_entry(0, LARGE))
    result = store.put(make_entry(1, 4 * LARGE))
    assert result.reason is PutReason.TOO_LARGE
    assert not result.stored
    assert get(store, make_entry(0).key)
    assert store.stats().failed_puts[PutReason.TOO_LARGE] == 1
    assert store.stats().evictions == 0


def test_counters_add_up(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store = open_kind()
    for name in range(3):
        store.put(make_entry(name))
        get(store, make_entry(name).key)
    get(store, make_entry(9).key)
    stats = store.stats()
    assert (stats.hits, stats.puts, stats.num_entries) == (3, 3, 3)
    assert sum(stats.misses.values()) == 1
    assert set(stats.misses) == set(MissReason)
    assert 0 < stats.num_bytes <= stats.max_bytes


def test_a_good_store_verifies(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store = open_kind()
    for name in range(3):
        store.put(make_entry(name))
    before = store.stats()
    assert store.verify().ok
    assert store.verify().num_checked == 3
    assert store.stats() == before
    store.check_integrity()


def test_a_closed_store_misses_and_refuses(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store, entry = open_kind(), make_entry()
    store.put(entry)
    store.close()
    store.close()
    assert_miss(get(store, entry.key), MissReason.UNREADABLE)
    assert store.put(entry).reason is PutReason.WRITE_FAILED
    assert not store.contains(entry.key)
    assert store.keys() == []
    assert not store.delete(entry.key)


def test_many_keys_are_answered_as_each_alone(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store = open_kind()
    for name in (0, 2):
        store.put(make_entry(name))
    keys = [make_entry(name).key for name in (0, 1, 2, 3, 0)]
    kind, digests = keys[0].kind, [key.digest for key in keys]
    assert store.contains_each(kind, digests) == [True, False, True, False, True]
    assert store.contains_each("vision", digests) == [False] * 5
    assert store.contains_each(kind, []) == []
    store.delete(make_entry(2).key)
    store.put(make_entry(3))
    assert store.contains_each(kind, digests) == [store.contains(key) for key in keys]
    assert store.contains_each(kind, digests) == [True, False, False, True, True]
    store.close()
    assert store.contains_each(kind, digests) == [False] * 5


def test_a_kind_that_a_store_may_not_contain_is_not_there(
    open_kind: OpenStore, make_entry: MakeEntry
) -> None:
    """A store may say yes and have none, never no and have one."""
    store, entry = open_kind(), make_entry()
    orbit = replace(entry, key=EntryKey("orbit", entry.key.digest))
    assert store.put(entry)
    assert not store.may_contain("orbit")
    assert store.put(orbit)
    assert store.put(orbit), "twice is one"
    assert store.may_contain("orbit")
    assert store.may_contain(entry.key.kind)
    assert store.contains_each("orbit", [entry.key.digest, "f" * 64]) == [True, False]
    assert_same(get(store, orbit.key).entry, orbit)  # type: ignore[union-attr]
    assert set(store.keys()) == {entry.key, orbit.key}
    store.check_integrity()
    assert store.delete(orbit.key)
    assert not store.contains(orbit.key)
    assert store.keys() == [entry.key]
    store.check_integrity()
    store.close()
    assert not store.may_contain("orbit")


def test_threads_may_share_a_store(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store, errors = open_kind(CAP), []

    def work(seed: int) -> None:
        try:
            for step in range(6):
                entry = make_entry((seed + step) % 5, LARGE)
                result = store.put(entry)
                assert result or result.reason is PutReason.NO_ROOM  # the others pin three
                with store.pin(entry.key):
                    found = get(store, entry.key)
                    if isinstance(found, Hit):
                        assert_same(found.entry, entry)
                get(store, make_entry((seed * step) % 5).key)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    store.check_integrity()
    assert store.stats().num_pinned == 0
    misses = store.stats().misses
    assert {reason for reason in misses if misses[reason]} <= {
        MissReason.UNKNOWN,
        MissReason.EVICTED,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "nano"},
        {"tenant": "\ud800"},
        {"tensors": {"": torch.zeros(1)}},
        {"tensors": {"__metadata__": torch.zeros(1)}},
        {"tensors": {"k": torch.zeros(1, device="meta")}},
        {"tensors": {"k": torch.zeros(1, dtype=torch.complex64)}},
        {"tensors": {"k": torch.eye(2).to_sparse()}},
        {"attributes": {"a": float("nan")}},
        {"attributes": {"a": [{"b": 1}]}},
        {"attributes": {"a\n": 1}},
    ],
)
def test_an_entry_that_cannot_be_right_is_refused(
    make_entry: MakeEntry, changes: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        make_entry(**changes)


@pytest.mark.parametrize(("kind", "digest"), [("exact", "0" * 64), ("patch", "0" * 32)])
def test_a_key_that_cannot_be_right_is_refused(kind: str, digest: str) -> None:
    with pytest.raises(ConfigError):
        EntryKey(kind, digest)


@pytest.mark.parametrize("max_bytes", [0, -1])
def test_a_cap_that_cannot_be_right_is_refused(open_kind: OpenStore, max_bytes: int) -> None:
    with pytest.raises(ConfigError):
        open_kind(max_bytes)


def test_a_peek_tells_one_entry_from_the_next(open_kind: OpenStore, make_entry: MakeEntry) -> None:
    store = open_kind()
    key = make_entry().key
    assert store.peek(key) is None
    assert not store.in_memory(key)
    store.put(make_entry(0, 100))
    before = store.peek(key)
    assert before is not None
    assert before.num_bytes >= 400
    assert store.get(key, model=MODEL, tenant="acme")
    assert store.peek(key) == before, "neither a get nor a peek makes it another one"
    store.put(make_entry(0, 100))
    after = store.peek(key)
    assert after is not None
    assert after.version != before.version
    assert store.stats().hits == 1
    assert store.delete(key)
    assert store.peek(key) is None
    store.put(make_entry())
    store.close()
    assert store.peek(key) is None
