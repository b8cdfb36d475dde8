"""Files that a newer Kamera wrote: they stay, the miss says so, and they leave like any other for room."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch
from store_folder import CAP, LARGE, MODEL, MakeEntry, file_of, hit, miss

from kamera.store import DiskStore, Entry, MemoryStore, Miss, MissReason, PutReason, TieredStore
from kamera.store.file_format import FORMAT_VERSION, encode_entry


def write_version(folder: Path, entry: Entry, version: str = "9") -> Path:
    """The entry's file as a version to come may write it: its metadata are all that is known here."""
    data = b"".join(encode_entry(entry))
    said = f'"format_version":"{FORMAT_VERSION}"'.encode()
    path = file_of(folder, entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.replace(said, f'"format_version":"{version}"'.encode()))
    return path


def test_it_stays_and_the_miss_says_which_versions_are_read(
    folder: Path, make_entry: MakeEntry
) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        path = write_version(folder, make_entry())
        data = path.read_bytes()
        for count in (1, 2):
            found = store.get(make_entry().key, model=MODEL, tenant="acme")
            assert isinstance(found, Miss)
            assert found.reason is MissReason.NEWER
            assert f"version 9, newer than this Kamera, which reads up to {FORMAT_VERSION}" in (
                found.detail
            )
            assert store.stats().misses[MissReason.NEWER] == count
        assert path.read_bytes() == data
        assert store.stats().quarantined == 0
        assert list((folder / "quarantine").iterdir()) == []
        assert store.is_newer(make_entry().key)


@pytest.mark.parametrize("version", ["0", "-3", "3x", "03", "", "٣"])
def test_what_is_no_higher_number_is_put_aside(
    folder: Path, make_entry: MakeEntry, version: str
) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        path = write_version(folder, make_entry(), version)
        assert miss(store, make_entry().key) is not MissReason.NEWER
        assert not path.exists()
        assert store.stats().quarantined == 1


def test_a_put_takes_its_place(folder: Path, make_entry: MakeEntry) -> None:
    """As it takes any other's: a newer Kamera reads this version too."""
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        write_version(folder, make_entry())
        assert store.put(make_entry())
        assert torch.equal(hit(store, make_entry().key).tensors["k"], make_entry().tensors["k"])
        assert not store.is_newer(make_entry().key)
        store.check_integrity()


def test_an_index_that_is_made_anew_lists_it(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry(0))
        store.put(make_entry(1))
    path = write_version(folder, make_entry(0))
    for name in range(2):
        os.utime(file_of(folder, make_entry(name)), (0, 1000 + name))
    for part in folder.glob("index.sqlite*"):
        part.unlink()
    with DiskStore(folder, CAP) as store:
        assert store.keys() == [make_entry(0).key, make_entry(1).key]
        store.check_integrity()
    assert path.exists()


def test_verify_tells_it_from_what_is_damaged(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        for name in range(3):
            store.put(make_entry(name))
        newer = write_version(folder, make_entry(0))
        bad = file_of(folder, make_entry(1))
        bad.write_bytes(b"garbage" * 10)
        report = store.verify()
        assert report.num_checked == 2
        assert [problem.name for problem in report.problems] == [bad.name]
        assert [(p.name, p.reason) for p in report.newer] == [(newer.name, MissReason.NEWER)]
        assert not report.ok
        bad.unlink()
        assert store.verify().ok


def test_it_leaves_in_its_turn_when_a_put_needs_room(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        for name in range(3):
            store.put(make_entry(name, LARGE))
        path = write_version(folder, make_entry(0, LARGE))
        assert store.put(make_entry(3, LARGE))
        assert not path.exists()
        hit(store, make_entry(1).key)


@pytest.mark.parametrize("spare", [True, False])
def test_shrinking_spares_it_when_it_is_asked_to(
    folder: Path, make_entry: MakeEntry, spare: bool
) -> None:
    with DiskStore(folder, CAP) as store:
        for name in range(3):
            store.put(make_entry(name, LARGE))
        path = write_version(folder, make_entry(0, LARGE))
        num_bytes = path.stat().st_size
        assert store.shrink(2 * num_bytes, spare_newer=spare) == int(spare)
        assert path.exists() == spare
        assert len(store.keys()) == 2
        assert store.shrink(1, spare_newer=spare) == int(spare)
        assert len(store.keys()) == int(spare)
        assert path.exists() == spare
        store.check_integrity()


def test_a_memory_tier_above_serves_what_is_put(folder: Path, make_entry: MakeEntry) -> None:
    with TieredStore(MemoryStore(CAP), DiskStore(folder, CAP)) as store:
        write_version(folder, make_entry())
        found = store.get(make_entry().key, model=MODEL, tenant="acme")
        assert isinstance(found, Miss)
        assert found.reason is MissReason.NEWER
        assert store.put(make_entry())
        assert store.get(make_entry().key, model=MODEL, tenant="acme")


def test_kinds_that_a_later_kamera_added_stay_and_count(
    folder: Path, make_entry: MakeEntry
) -> None:
    later = ("later", "f" * 64, "", None, 1000, 0)  # used before all others
    with DiskStore(folder, CAP) as store:
        for name in range(3):
            store.put(make_entry(name, LARGE))
    with closing(sqlite3.connect(folder / "index.sqlite")) as index, index:
        index.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", later)
        index.execute("INSERT INTO pins VALUES (?, ?, 'nobody')", later[:2])
    known = [make_entry(name).key for name in range(4)]
    with DiskStore(folder, CAP) as store:
        assert store.keys() == known[:3]
        num_bytes = store.stats().num_bytes
        assert store.put(make_entry(3, LARGE))
        assert store.keys() == known[1:]
        assert store.stats().num_bytes == num_bytes
        assert store.stats().num_entries == 4
        assert store.forget_missing() == 0
        store.check_integrity()
        store.shrink(1)
        assert (store.keys(), store.stats().num_bytes) == ([], 1000)
    with DiskStore(folder, 999) as store:
        assert store.put(make_entry(0)).reason is PutReason.NO_ROOM
