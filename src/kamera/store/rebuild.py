"""Opening a folder's index, and making it anew from the files when it is missing or corrupt."""

import contextlib
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kamera.store.contract import MissReason
from kamera.store.directory import Directory
from kamera.store.entry import EntryKey
from kamera.store.file_format import EntryFormatError
from kamera.store.index import Index
from kamera.store.reading import open_entry

__all__ = ["open_index", "rebuild"]

logger = logging.getLogger(__name__)

PutAside = Callable[[Path, MissReason], None]


def open_index(
    directory: Directory, put_aside: PutAside, *, is_suspect: bool = False
) -> Index | None:
    """The index of `directory`, rebuilt if need be. None where there can't be one (read-only)."""
    with _exclusive(directory.path / "index.lock"):
        try:
            index = _open_or_replace(directory, is_suspect)
        except (sqlite3.Error, OSError):
            return None
        if not index.is_new:
            return index
        try:
            rebuild(index, directory, put_aside)
        except sqlite3.Error:
            index.close()
            return None
        return index


def rebuild(index: Index, directory: Directory, put_aside: PutAside) -> int:
    """List what the files' own headers say, the oldest file first; returns how many there are.

    A file whose header is bad is put aside; one of a newer format version is listed without its model and
    tenant. Payloads aren't read: each get verifies its own.
    """
    clock = time.monotonic()
    directory.remove_old_stale()
    with index.transaction():
        found = []
        for key, path in directory.files():
            try:
                found.append((path.stat().st_mtime_ns, key, *_owners_of(key, path)))
            except EntryFormatError as error:
                put_aside(path, error.reason)
            except OSError:
                continue  # gone, or unreadable: a get will say
        index.clear()
        for _, key, model, tenant, num_bytes in sorted(found, key=lambda row: row[:2]):
            index.used(key, model, tenant, num_bytes)
        index.mark_built()
    if found:
        took = time.monotonic() - clock
        logger.warning("Store index rebuilt from the files: %d entries in %.1f s", len(found), took)
    return len(found)


def _owners_of(key: EntryKey, path: Path) -> tuple[str, str | None, int]:
    """The model and the tenant of a file, and its bytes."""
    try:
        with open_entry(path, key) as opened:
            return opened.header.model, opened.header.tenant, opened.num_bytes
    except EntryFormatError as error:
        if error.reason is not MissReason.NEWER:
            raise
        return "", None, path.stat().st_size


def _open_or_replace(directory: Directory, is_suspect: bool) -> Index:
    path = directory.index
    with contextlib.suppress(OSError):  # SQLite would let others read it
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(path, flags, 0o600))
    try:
        return Index(path, is_suspect=is_suspect)
    except sqlite3.OperationalError as error:
        if "no such" not in str(error) and not path.is_dir():
            raise  # locked, read-only, disk full: the index may be good
    except sqlite3.DatabaseError:
        pass
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if os.path.lexists(part) and not directory.quarantine(part, MissReason.CORRUPT.value):
            raise OSError(f"{part} is corrupt and can't be moved aside")
    return Index(path)


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """One process at a time; no lock where the folder can't be written."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
