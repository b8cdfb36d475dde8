"""Memory over disk."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from store_folder import CAP, LARGE, MODEL, MakeEntry

from kamera.store import (
    DiskStore,
    EntryKey,
    MemoryStore,
    PutReason,
    TieredStore,
    open_store,
)


def test_a_tiered_store_serves_from_memory_and_survives_a_restart(
    folder: Path, make_entry: MakeEntry
) -> None:
    with open_store(folder, 1 << 20, 1 << 20) as store:
        store.put(make_entry())
        assert store.get(make_entry().key, model=MODEL, tenant="acme")
        assert store.stats().tiers["memory"].hits == 1
        assert store.stats().tiers["disk"].hits == 0
    with open_store(folder, 1 << 20, 1 << 20) as store:
        for _ in range(2):
            assert store.get(make_entry().key, model=MODEL, tenant="acme")
        assert store.stats().tiers["memory"].hits == 1
        assert store.stats().tiers["disk"].hits == 1
        assert store.stats().hits == 2


def test_a_failing_disk_tier_leaves_a_working_memory_tier(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with TieredStore(MemoryStore(CAP), DiskStore(folder, CAP)) as store:
        monkeypatch.setattr(os, "replace", refuse)
        result = store.put(make_entry())
        assert result.reason is PutReason.MEMORY_ONLY
        assert "No space" in result.detail
        assert store.get(make_entry().key, model=MODEL, tenant="acme")
        assert store.keys() == [make_entry().key]
        assert store.stats().num_entries == 1


def test_memory_hits_keep_an_entry_on_disk(folder: Path, make_entry: MakeEntry) -> None:
    with TieredStore(MemoryStore(4 * CAP), DiskStore(folder, CAP)) as store:
        for name in range(3):
            store.put(make_entry(name, LARGE))
        assert store.get(make_entry(0).key, model=MODEL, tenant="acme")
        store.put(make_entry(3, LARGE))
        assert store.disk.contains(make_entry(0).key)
        assert not store.disk.contains(make_entry(1).key)


def test_each_tier_is_asked_for_what_only_it_holds(folder: Path, make_entry: MakeEntry) -> None:
    with TieredStore(MemoryStore(CAP), DiskStore(folder, CAP)) as store:
        store.memory.put(make_entry(0))
        store.disk.put(make_entry(1))
        store.put(make_entry(2))
        keys = [make_entry(name).key for name in (3, 1, 0, 2, 1)]
        found = store.contains_each(keys[0].kind, [key.digest for key in keys])
        assert found == [False, True, True, True, True]


@pytest.mark.parametrize("tier", ["memory", "disk"])
def test_either_tier_may_contain_a_kind(folder: Path, make_entry: MakeEntry, tier: str) -> None:
    orbit = replace(make_entry(), key=EntryKey("orbit", make_entry().key.digest))
    with TieredStore(MemoryStore(CAP), DiskStore(folder, CAP)) as store:
        assert not store.may_contain("orbit")
        getattr(store, tier).put(orbit)
        assert store.may_contain("orbit")


def test_no_path_is_a_memory_store() -> None:
    with open_store(None) as store:
        assert isinstance(store, MemoryStore)
