"""The index of the disk store: kept over restarts, made anew from the files when it is lost or bad."""

import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from store_folder import CAP, LARGE, MODEL, MakeEntry, file_of, hit, miss

from kamera.store import (
    DiskStore,
    EntryKey,
    MissReason,
)
from kamera.store.directory import STALE_S
from kamera.store.uses import USES_BATCH


def test_a_restart_keeps_entries_and_their_order_of_use(
    folder: Path, make_entry: MakeEntry
) -> None:
    with DiskStore(folder, CAP) as store:
        for name in range(3):
            store.put(make_entry(name, LARGE))
        hit(store, make_entry(0).key)
    with DiskStore(folder, CAP) as store:
        listed = store.keys()
        assert [int(key.digest, 16) for key in listed] == [1, 2, 0]
        store.put(make_entry(3, LARGE))
        assert miss(store, make_entry(1).key) is MissReason.EVICTED
    with DiskStore(folder, CAP) as store:
        assert miss(store, make_entry(1).key) is MissReason.EVICTED
        assert torch.equal(hit(store, make_entry(3).key).tensors["k"][:2], torch.tensor([3.0, 4.0]))


def test_opening_a_good_folder_puts_nothing_aside(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store, store.pin(make_entry(0).key):
        for name in range(5):
            store.put(make_entry(name, LARGE))
        DiskStore(folder, CAP).close()
    DiskStore(folder, CAP).close()
    assert list((folder / "quarantine").iterdir()) == []


def test_a_deleted_index_is_rebuilt_from_the_files(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        for name in (2, 0, 1):
            store.put(make_entry(name))
            os.utime(file_of(folder, make_entry(name)), (0, 1000 + name))
        before = store.stats()
    for path in folder.glob("index.sqlite*"):
        path.unlink()
    with DiskStore(folder, CAP) as store:
        listed = store.keys()
        assert [int(key.digest, 16) for key in listed] == [0, 1, 2]
        assert store.stats().num_bytes == before.num_bytes
        store.check_integrity()
        hit(store, make_entry(1).key)


@pytest.mark.parametrize("garbage", [b"garbage" * 1000, b"SQLite format 3\0" + bytes(4096)])
def test_a_garbage_index_is_put_aside_and_rebuilt(
    folder: Path, make_entry: MakeEntry, garbage: bytes
) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
    (folder / "index.sqlite").write_bytes(garbage)
    with DiskStore(folder, CAP) as store:
        assert store.keys() == [make_entry().key]
        assert store.put(make_entry(1))
        store.check_integrity()
    assert [path.read_bytes() for path in (folder / "quarantine").iterdir()] == [garbage]


@pytest.mark.parametrize("script", ["DROP TABLE totals", "PRAGMA user_version = 99"])
def test_an_index_of_another_shape_is_put_aside_and_rebuilt(
    folder: Path, make_entry: MakeEntry, script: str
) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
    database = sqlite3.connect(folder / "index.sqlite")
    database.execute(script)
    database.close()
    with DiskStore(folder, CAP) as store:
        assert store.keys() == [make_entry().key]
        assert store.put(make_entry(1))


def test_a_folder_in_place_of_the_index_is_put_aside(folder: Path, make_entry: MakeEntry) -> None:
    (folder / "index.sqlite").mkdir(parents=True)
    folder.chmod(0o700)
    with DiskStore(folder, CAP) as store:
        assert store.put(make_entry())
        assert store.keys() == [make_entry().key]


def test_an_index_that_breaks_under_way_is_rebuilt(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry(0))
        broken = [sqlite3.DatabaseError("database disk image is malformed")]
        original = store._index.keys

        def keys() -> list[EntryKey]:
            raise broken.pop()

        monkeypatch.setattr(store._index, "keys", keys)
        assert store.keys() == [make_entry(0).key]
        assert broken == []
        assert store._index.keys != original
        assert store.put(make_entry(1))


def test_rebuilding_by_hand_puts_bad_files_aside(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry(0))
        store.put(make_entry(1))
        file_of(folder, make_entry(1)).write_bytes(b"bad")
        (folder / "entries" / "00" / "notes.txt").touch()
        assert store.rebuild_index() == 1
        assert store.keys() == [make_entry(0).key]
        assert store.stats().quarantined == 1


def test_a_smaller_cap_evicts_when_the_folder_is_opened(
    folder: Path, make_entry: MakeEntry
) -> None:
    with DiskStore(folder, CAP) as store:
        for name in range(3):
            store.put(make_entry(name, LARGE))
    with DiskStore(folder, CAP // 3) as store:
        assert store.keys() == [make_entry(2).key]
        assert store.stats().evictions == 2


def test_a_bad_page_of_a_large_index_is_found_when_it_is_used(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry(0))
        assert store._index is not None
        with store._index.transaction():
            for name in range(1, 2000):
                store._index.used(make_entry(name).key, MODEL, None, 0)
    index = folder / "index.sqlite"
    num_bytes = index.stat().st_size
    with index.open("r+b") as file:
        file.seek(num_bytes // 2)
        file.write(b"\x55" * 8 * 4096)
    monkeypatch.setattr("kamera.store.index.CHECKED_BYTES", num_bytes - 1)
    with DiskStore(folder, CAP) as store:
        assert list((folder / "quarantine").iterdir()) == [], "it was opened without reading it"
        assert store.keys() == [make_entry(0).key]
        assert list((folder / "quarantine").iterdir())
        hit(store, make_entry(0).key)
        store.check_integrity()


def test_opening_lists_no_entry(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a folder that knows a million would take seconds to open."""
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
    listed = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        assert "entries" not in path.parts
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with DiskStore(folder, CAP) as store:
        assert store.stats().num_entries == 1


def test_what_version_1_left_unfinished_goes_when_the_index_is_made_anew(
    folder: Path, make_entry: MakeEntry
) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        old, young = (folder / "entries" / "00" / f".tmp-1-{age}" for age in ("old", "young"))
        old.touch()
        young.touch()
        os.utime(old, (0, time.time() - STALE_S - 1))
        assert store.rebuild_index() == 1
        assert (old.exists(), young.exists()) == (False, True)


def test_reads_are_told_some_at_a_time_and_count_for_other_stores(
    folder: Path, make_entry: MakeEntry
) -> None:
    with DiskStore(folder, CAP) as one, DiskStore(folder, CAP) as two:
        for name in range(USES_BATCH):
            one.put(make_entry(name))
        order = list(reversed(range(USES_BATCH)))
        for name in order[:-1]:
            hit(one, make_entry(name).key)
        assert two.keys() == [make_entry(name).key for name in range(USES_BATCH)]
        hit(one, make_entry(order[-1]).key)
        assert two.keys() == [make_entry(name).key for name in order]
