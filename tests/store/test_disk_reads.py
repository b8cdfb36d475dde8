"""What a get of the disk store meets: payloads of many pieces, files that aren't what they should be."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from store_folder import CAP, MakeEntry, file_of, hit, miss

from kamera.store import (
    DiskStore,
    MissReason,
    PutReason,
)
from kamera.store.pieces import PIECE_BYTES, SPLIT_BYTES

SIZES = [size + extra for size in (PIECE_BYTES, SPLIT_BYTES) for extra in (-4, 0, 4)]


@pytest.fixture
def read_only(make_entry: MakeEntry) -> Iterator[Path]:
    """A filled store folder that this process may read and can't write, even as root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with DiskStore(folder, CAP) as store:
            store.put(make_entry(0))
        was, nobody = os.geteuid(), 65534
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o500 if path.is_dir() else 0o400)
            if was == 0:
                os.chown(path, nobody, -1)
        try:
            if was == 0:
                os.seteuid(nobody)
            yield folder
        finally:
            if was == 0:
                os.seteuid(was)
            for path in [folder, *folder.rglob("*")]:
                path.chmod(0o700)


@pytest.mark.parametrize("size", [*SIZES, SPLIT_BYTES + PIECE_BYTES + 4])
@pytest.mark.parametrize("damaged", [-1, PIECE_BYTES + 7, PIECE_BYTES // 2])
def test_a_payload_of_several_pieces_comes_back_and_is_verified(
    folder: Path, make_entry: MakeEntry, size: int, damaged: int
) -> None:
    """`damaged` is a byte of the payload: in its last piece, in the second, in the first."""
    entry = make_entry(0, size // 4)
    with DiskStore(folder, 10 * SPLIT_BYTES) as store:
        store.put(entry)
        assert torch.equal(hit(store, entry.key).tensors["k"], entry.tensors["k"])
        path = file_of(folder, entry)
        data = bytearray(path.read_bytes())
        data[damaged % size - size] ^= 0x10
        path.write_bytes(data)
        assert miss(store, entry.key) is MissReason.CORRUPT


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_disk_that_fails_under_way_is_a_miss_and_leaves_the_file(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """In whichever piece it is, and whoever of the two reads it."""
    entry = make_entry(0, 3 * PIECE_BYTES // 4)
    read = os.preadv

    def failing(descriptor: int, views: list[memoryview], offset: int) -> int:
        if offset // PIECE_BYTES == at and offset > 4096 * (at == 0):
            raise OSError(5, "Input/output error")
        return read(descriptor, [views[0][: PIECE_BYTES // 3]], offset)

    with DiskStore(folder, 10 * SPLIT_BYTES) as store:
        store.put(entry)
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", failing)
            assert miss(store, entry.key) is MissReason.UNREADABLE
        assert torch.equal(hit(store, entry.key).tensors["k"], entry.tensors["k"])


def test_a_file_that_went_away_is_a_miss(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        file_of(folder, make_entry()).unlink()
        assert miss(store, make_entry().key) is MissReason.UNKNOWN
        assert store.keys() == []
        store.check_integrity()


@pytest.mark.parametrize("make", ["folder", "link", "pipe"])
def test_what_is_no_file_is_a_miss_and_is_put_aside(
    folder: Path, make_entry: MakeEntry, make: str, tmp_path: Path
) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        path = file_of(folder, make_entry())
        path.rename(tmp_path / "elsewhere")
        if make == "folder":
            path.mkdir()
            (path / "inside").touch()
        elif make == "link":
            path.symlink_to(tmp_path / "elsewhere")
        else:
            os.mkfifo(path)
        assert miss(store, make_entry().key) is MissReason.UNREADABLE
        assert not os.path.lexists(path)
        assert store.stats().quarantined == 1
        assert store.put(make_entry())
        hit(store, make_entry().key)


def test_a_file_over_the_cap_is_not_read(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        os.truncate(file_of(folder, make_entry()), 1 << 40)
        assert miss(store, make_entry().key) is MissReason.UNREADABLE


def test_an_error_of_the_disk_is_a_miss_and_leaves_the_file(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        with monkeypatch.context() as patch:
            patch.setattr("kamera.store.reading.read_header", refuse)
            assert miss(store, make_entry().key) is MissReason.UNREADABLE
        hit(store, make_entry().key)


def test_a_disk_that_tells_nothing_of_an_open_file_is_a_miss_and_the_file_is_closed(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []

    def stale(descriptor: int) -> os.stat_result:
        opened.append(descriptor)
        raise OSError(116, "Stale file handle")

    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        with monkeypatch.context() as patched:
            patched.setattr(os, "fstat", stale)
            assert miss(store, make_entry().key) is MissReason.UNREADABLE
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(opened[0])
        hit(store, make_entry().key)


def test_a_read_only_folder_serves_and_refuses(read_only: Path, make_entry: MakeEntry) -> None:
    with DiskStore(read_only, CAP) as store:
        hit(store, make_entry(0).key)
        assert store.keys() == [make_entry(0).key]
        assert store.stats().num_entries == 1
        assert store.put(make_entry(1)).reason is PutReason.WRITE_FAILED
        assert not store.delete(make_entry(0).key)
        with store.pin(make_entry(0).key) as present:
            assert present
        assert store.verify().ok


@pytest.mark.parametrize(("count", "num_bytes", "kept"), [(3, 1 << 30, 3), (64, 250, 2)])
def test_what_is_put_aside_is_bounded_and_the_newest_stay(
    folder: Path,
    make_entry: MakeEntry,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    num_bytes: int,
    kept: int,
) -> None:
    monkeypatch.setattr("kamera.store.directory.MAX_QUARANTINED", count)
    monkeypatch.setattr("kamera.store.directory.MAX_QUARANTINED_BYTES", num_bytes)
    with DiskStore(folder, CAP) as store:
        for name in range(5):
            store.put(make_entry(name))
            file_of(folder, make_entry(name)).write_bytes(b"x" * 100)
            assert miss(store, make_entry(name).key) is MissReason.CORRUPT
        assert store.stats().quarantined == 5
    names = {path.name.split(".")[0] for path in (folder / "quarantine").iterdir()}
    assert names == {str(make_entry(name).key) for name in range(5)[-kept:]}


@pytest.mark.parametrize(("count", "num_bytes", "kept"), [(3, 1 << 30, 3), (64, 2500, 2)])
def test_folders_that_are_put_aside_are_bounded_too(
    folder: Path,
    make_entry: MakeEntry,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    count: int,
    num_bytes: int,
    kept: int,
) -> None:
    """With what is in them, and without following a link out of them."""
    monkeypatch.setattr("kamera.store.directory.MAX_QUARANTINED", count)
    monkeypatch.setattr("kamera.store.directory.MAX_QUARANTINED_BYTES", num_bytes)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "large").write_bytes(bytes(10_000))
    with DiskStore(folder, CAP) as store:
        for name in range(5):
            path = file_of(folder, make_entry(name))
            inner = path / "inner"
            inner.mkdir(parents=True)
            (inner / "data").write_bytes(bytes(1000))
            (inner / "link").symlink_to(elsewhere)
            assert miss(store, make_entry(name).key) is MissReason.UNREADABLE
        assert store.stats().quarantined == 5
        names = {path.name.split(".")[0] for path in store.put_aside()}
        assert names == {str(make_entry(name).key) for name in range(5)[-kept:]}
        assert store.empty_quarantine() == kept
        assert store.put_aside() == []
    assert (elsewhere / "large").exists()


def test_folders_deep_in_each_other_are_a_miss_like_any(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kamera.store.directory.MAX_QUARANTINED", 1)
    with DiskStore(folder, CAP) as store:
        for name in range(3):
            path = file_of(folder, make_entry(name))
            path.parent.mkdir(exist_ok=True)
            for _ in range(500):
                path.mkdir()
                path = path / "d"
            assert miss(store, make_entry(name).key) is MissReason.UNREADABLE
        assert store.stats().quarantined == 3


def test_what_somebody_removed_can_be_forgotten(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        for name in range(3):
            store.put(make_entry(name))
        file_of(folder, make_entry(1)).unlink()
        assert store.forget_missing() == 1
        assert store.keys() == [make_entry(0).key, make_entry(2).key]
        store.check_integrity()
        assert store.forget_missing() == 0


def test_verify_holds_a_piece_of_an_entry_at_a_time(
    folder: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any size that a file may claim can be verified, and every byte of it is looked at."""
    size = 3 * PIECE_BYTES + 8
    largest = [0]
    read = os.preadv

    def watched(descriptor: int, views: list[memoryview], offset: int) -> int:
        largest[0] = max(largest[0], len(views[0]))
        return read(descriptor, views, offset)

    entry = make_entry(0, size // 4)
    with DiskStore(folder, 10 * SPLIT_BYTES) as store:
        store.put(entry)
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", watched)
            assert store.verify().ok
        assert largest == [PIECE_BYTES]
        path = file_of(folder, entry)
        data = bytearray(path.read_bytes())
        for damaged in (len(data) - 1, len(data) - 9, len(data) - size, len(data) - PIECE_BYTES):
            data[damaged] ^= 1
            path.write_bytes(data)
            assert [problem.reason for problem in store.verify().problems] == [MissReason.CORRUPT]
            data[damaged] ^= 1
        path.write_bytes(data[:-1])
        assert [problem.reason for problem in store.verify().problems] == [MissReason.TRUNCATED]
