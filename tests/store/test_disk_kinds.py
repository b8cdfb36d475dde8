"""Where entries of each kind lie, and how a folder is asked for many at once."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from store_folder import CAP, MakeEntry, file_of, hit

from kamera.store import DiskStore, Entry, EntryKey


def orbit_of(make_entry: MakeEntry, name: int = 0) -> Entry:
    return make_entry(name, key=EntryKey("orbit", f"{name:064x}"))


def test_orbit_patches_lie_in_a_folder_of_their_own(folder: Path, make_entry: MakeEntry) -> None:
    entry, orbit = make_entry(), orbit_of(make_entry)
    path = folder / "entries" / "orbit" / f"orbit-{orbit.key.digest}.safetensors"
    with DiskStore(folder, CAP) as store:
        store.put(entry)
        assert not path.parent.exists()
        store.put(orbit)
        assert path.is_file()
        assert file_of(folder, entry).is_file()
        assert store.verify().num_checked == 2


def test_the_folder_outlives_its_entries_and_is_no_entry(
    folder: Path, make_entry: MakeEntry
) -> None:
    with DiskStore(folder, CAP) as store:
        orbit = orbit_of(make_entry)
        store.put(orbit)
        assert store.delete(orbit.key)
        assert store.may_contain("orbit")
        assert store.contains_each("orbit", [orbit.key.digest]) == [False]
        assert store.rebuild_index() == 0


def test_another_stores_first_orbit_patch_is_seen_at_once(
    folder: Path, make_entry: MakeEntry
) -> None:
    with DiskStore(folder, CAP) as store, DiskStore(folder, CAP) as other:
        orbit = orbit_of(make_entry)
        assert not store.may_contain("orbit")
        other.put(orbit)
        assert store.may_contain("orbit")
        assert store.contains_each("orbit", [orbit.key.digest]) == [True]


def test_an_index_made_anew_lists_them(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        for name in range(2):
            store.put(orbit_of(make_entry, name))
            store.put(make_entry(name))
    (folder / "index.sqlite").unlink()
    with DiskStore(folder, CAP) as store:
        listed = store.keys()
        assert sorted(key.kind for key in listed) == ["canonical", "canonical", "orbit", "orbit"]
        hit(store, orbit_of(make_entry, 1).key)
        store.check_integrity()


def test_a_file_in_another_kinds_folder_is_no_entry(folder: Path, make_entry: MakeEntry) -> None:
    entry, orbit = make_entry(), orbit_of(make_entry)
    with DiskStore(folder, CAP) as store:
        store.put(entry)
        store.put(orbit)
    orbits = folder / "entries" / "orbit"
    (orbits / f"orbit-{orbit.key.digest}.safetensors").rename(
        folder / "entries" / orbit.key.digest[:2] / f"orbit-{orbit.key.digest}.safetensors"
    )
    file_of(folder, entry).rename(orbits / file_of(folder, entry).name)
    with DiskStore(folder, CAP) as store:
        assert store.rebuild_index() == 0
        assert not store.contains(entry.key)
        assert not store.contains(orbit.key)


@pytest.mark.parametrize("kind", ["canonical", "orbit"])
def test_a_folder_that_cannot_be_opened_is_asked_by_whole_names(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As when too many files are open."""
    with DiskStore(folder, CAP) as store:
        store.put(make_entry(0, key=EntryKey(kind, f"{0:064x}")))
        digests = [f"{name:064x}" for name in (1, 0)]

        def refuse(*_: Any, **__: Any) -> int:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(os, "open", refuse)
        assert store.contains_each(kind, digests) == [False, True]
        monkeypatch.undo()
        assert store.contains_each(kind, digests) == [False, True]


def test_a_folder_that_is_gone_holds_nothing(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        shutil.rmtree(folder / "entries")
        assert store.contains_each("canonical", [make_entry().key.digest]) == [False]
        assert not store.may_contain("orbit")
        (folder / "entries").mkdir()
        assert store.put(make_entry())
        assert store.contains_each("canonical", [make_entry().key.digest]) == [True]
