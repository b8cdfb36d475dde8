"""The disk store's own promises: crashes, a lost index, other processes, other users."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from kamera.errors import ConfigError
from kamera.store import (
    DiskStore,
    Entry,
    EntryKey,
    Hit,
    MemoryStore,
    Miss,
    MissReason,
    PutReason,
    TieredStore,
    open_store,
)
from kamera.store.directory import STALE_S
from kamera.store.pieces import PIECE_BYTES, SPLIT_BYTES

MODEL = "a" * 64
MakeEntry = Callable[..., Entry]

LARGE = 25_000  # float32 values: 100 kB
CAP = 350_000  # three of them


class Crash(BaseException):
    """Not an Exception: nothing in the store may handle it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def hit(store: DiskStore, key: EntryKey) -> Entry:
    found = store.get(key, model=MODEL, tenant="acme")
    assert isinstance(found, Hit), found
    return found.entry


def miss(store: DiskStore, key: EntryKey) -> MissReason:
    found = store.get(key, model=MODEL, tenant="acme")
    assert isinstance(found, Miss)
    return found.reason


def file_of(folder: Path, entry: Entry) -> Path:
    name = f"{entry.key.kind}-{entry.key.digest}.safetensors"
    return folder / "entries" / entry.key.digest[:2] / name


def temporaries(folder: Path) -> list[Path]:
    return list((folder / "incoming").iterdir())


def _script(body: str) -> str:
    """A second process's program: a store on the folder and a `make` like the fixture."""
    return (
        "import os, sys, torch\n"
        "from kamera.store import DiskStore, Entry, EntryKey\n"
        f"store = DiskStore(sys.argv[1], {CAP})\n"
        "def make(name, num_floats=4):\n"
        "    tensors = {'k': torch.arange(num_floats, dtype=torch.float32) + name}\n"
        "    key = EntryKey('canonical', f'{name:064x}')\n"
        f"    return Entry(key, '{MODEL}', 'acme', tensors, {{'name': name}})\n"
    ) + body


def run_script(body: str, folder: Path, *, code: int = 0) -> None:
    command = [sys.executable, "-c", _script(body), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr


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


SIZES = [size + extra for size in (PIECE_BYTES, SPLIT_BYTES) for extra in (-4, 0, 4)]


@pytest.mark.parametrize("size", [*SIZES, SPLIT_BYTES + PIECE_BYTES + 4])
@pytest.mark.parametrize("damaged", [-1, PIECE_BYTES + 7, PIECE_BYTES // 2])
def test_a_payload_of_several_pieces_comes_back_and_is_verified(
    folder: Path, make_entry: MakeEntry, size: int, damaged: int
) -> None:
    """`damaged` is a byte of the payload: in its last piece, in one the helper reads, in the first."""
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
    """Piece 1 is the helper's; what one thread meets the other one tells."""
    entry = make_entry(0, (SPLIT_BYTES + PIECE_BYTES) // 4)
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


def test_opening_a_good_folder_puts_nothing_aside(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store, store.pin(make_entry(0).key):
        for name in range(5):
            store.put(make_entry(name, LARGE))
        DiskStore(folder, CAP).close()
    DiskStore(folder, CAP).close()
    assert list((folder / "quarantine").iterdir()) == []


def test_folder_and_files_are_closed_to_others(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert len(files) > 3
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_loose_folder_is_closed_if_it_is_ours(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    DiskStore(folder, CAP).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o750)
    DiskStore(folder, CAP).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_loose_folder_of_somebody_elses_is_refused(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    (folder / "thesis.txt").touch()
    with pytest.raises(ConfigError, match="isn't a Kamera store"):
        DiskStore(folder, CAP)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_a_file_in_place_of_the_folder_is_refused(folder: Path) -> None:
    folder.touch()
    with pytest.raises(ConfigError, match="can't be used"):
        DiskStore(folder, CAP)


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


def test_a_put_goes_over_a_folder_in_its_place(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        file_of(folder, make_entry()).mkdir(parents=True)
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


def test_a_smaller_cap_evicts_when_the_folder_is_opened(
    folder: Path, make_entry: MakeEntry
) -> None:
    with DiskStore(folder, CAP) as store:
        for name in range(3):
            store.put(make_entry(name, LARGE))
    with DiskStore(folder, CAP // 3) as store:
        assert store.keys() == [make_entry(2).key]
        assert store.stats().evictions == 2


def test_another_stores_pin_holds_until_it_closes(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as one, DiskStore(folder, CAP) as two:
        first = make_entry(0, LARGE)
        one.put(first)
        with two.pin(first.key) as present:
            assert present
            for name in range(1, 6):
                assert one.put(make_entry(name, LARGE))
            assert not one.delete(first.key)
            hit(one, first.key)
        for name in range(1, 6):
            assert one.put(make_entry(name, LARGE))
        assert miss(one, first.key) is MissReason.EVICTED
        assert miss(two, first.key) is MissReason.EVICTED


def test_a_second_process_writes_and_the_first_reads(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        run_script("assert store.put(make(1)); store.close()", folder)
        assert torch.equal(hit(store, make_entry(1).key).tensors["k"], make_entry(1).tensors["k"])
        assert store.keys() == [make_entry(1).key]


def test_the_pin_of_a_process_that_died_holds_nobody_up(
    folder: Path, make_entry: MakeEntry
) -> None:
    body = "store.put(make(0, 25000)); pin = store.pin(make(0).key); pin.__enter__(); os._exit(9)"
    run_script(body, folder, code=9)
    with DiskStore(folder, CAP) as store:
        assert store.stats().num_pinned == 1
        for name in range(1, 5):
            assert store.put(make_entry(name, LARGE))
        assert miss(store, make_entry(0).key) is MissReason.EVICTED
        assert store.stats().num_pinned == 0


def test_two_processes_may_write_one_folder_at_once(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        script = "for i in range(30): assert store.put(make(i % 5, 25000))\nstore.close()"
        command = [sys.executable, "-c", _script(script), str(folder)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as other:
            while other.poll() is None:
                for name in range(5):
                    store.put(make_entry(name, LARGE))
                    store.get(make_entry(name).key, model=MODEL, tenant="acme")
            assert other.stderr is not None
            assert other.returncode == 0, other.stderr.read()
        store.check_integrity()
        assert store.verify().ok
        assert store.stats().num_bytes <= CAP
        misses = store.stats().misses
        assert misses[MissReason.CORRUPT] == misses[MissReason.TRUNCATED] == 0


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


def test_no_path_is_a_memory_store() -> None:
    with open_store(None) as store:
        assert isinstance(store, MemoryStore)
