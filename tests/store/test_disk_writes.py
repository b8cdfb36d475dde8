"""A put of the disk store is whole or not there, whatever fails and wherever it crashes."""

import os
import sqlite3
import time
from pathlib import Path

import pytest
from store_folder import CAP, LARGE, Crash, MakeEntry, file_of, hit, miss, run_script, temporaries

from kamera.store import (
    DiskStore,
    MissReason,
    PutReason,
)
from kamera.store.directory import STALE_S


@pytest.mark.parametrize("name", ["replace", "fsync", "open"])
def test_a_write_that_the_system_refuses_is_a_typed_result(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with DiskStore(folder, CAP) as store:
        store.put(make_entry(0))
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            result = store.put(make_entry(1))
        assert result.reason is PutReason.WRITE_FAILED
        assert "No space" in result.detail
        assert miss(store, make_entry(1).key) is MissReason.UNKNOWN
        assert temporaries(folder) == []
        assert store.stats().failed_puts[PutReason.WRITE_FAILED] == 1
        assert store.keys() == [make_entry(0).key]
        store.check_integrity()
        assert store.put(make_entry(1))


def test_a_failed_write_evicts_nothing(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with DiskStore(folder, CAP) as store:
        for name in range(3):
            store.put(make_entry(name, LARGE))
        monkeypatch.setattr(os, "replace", refuse)
        assert not store.put(make_entry(3, LARGE))
        for name in range(3):
            hit(store, make_entry(name).key)
        assert store.stats().evictions == 0


def test_an_index_that_fails_to_commit_leaves_nothing_visible(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with DiskStore(folder, CAP) as store:
        with monkeypatch.context() as patch:
            patch.setattr("kamera.store.index.Index.used", fail)
            assert store.put(make_entry()).reason is PutReason.WRITE_FAILED
        assert miss(store, make_entry().key) is MissReason.UNKNOWN
        store.check_integrity()


def test_a_process_that_dies_before_the_rename_leaves_nothing_visible(
    folder: Path, make_entry: MakeEntry
) -> None:
    run_script(
        "store.put(make(0)); os.replace = lambda *_: os._exit(9); store.put(make(1))",
        folder,
        code=9,
    )
    [left] = temporaries(folder)
    with DiskStore(folder, CAP) as store:
        hit(store, make_entry(0).key)
        assert miss(store, make_entry(1).key) is MissReason.UNKNOWN
        assert store.keys() == [make_entry(0).key]
        assert store.put(make_entry(1))
    assert left.exists(), "a young temporary file may be a live writer's"
    os.utime(left, (0, time.time() - STALE_S - 1))
    DiskStore(folder, CAP).close()
    assert not left.exists()


def test_a_crash_after_the_rename_loses_nothing(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise Crash

    store = DiskStore(folder, CAP)
    with monkeypatch.context() as patch:
        patch.setattr("kamera.store.index.Index.used", crash)
        with pytest.raises(Crash):
            store.put(make_entry())
    store.close()
    with DiskStore(folder, CAP) as store:
        assert store.keys() == []
        hit(store, make_entry().key)
        assert store.keys() == [make_entry().key], "a get lists what the index missed"
        store.check_integrity()


def test_a_put_goes_over_a_folder_in_its_place(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        file_of(folder, make_entry()).mkdir(parents=True)
        assert store.put(make_entry())
        hit(store, make_entry().key)
