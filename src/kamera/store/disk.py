"""A store in one folder: a safetensors file per entry, an SQLite index beside them.

A write is: temporary file, fsync, then in one index transaction rename, fsync of the folder,
removal of what had to make room, index row, commit. A crash leaves either the old state or a whole
new file, which the next get lists. A read goes to the file by name and checks it; the index is told of
reads some at a time, and before anything leaves for want of room.

What is there is asked of the file system, by name: nothing is held in memory for an entry, so that
opening a folder costs the same for ten entries and for a million.
"""

import contextlib
import os
import sqlite3
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from kamera.errors import ConfigError
from kamera.store.contract import (
    Hit,
    Miss,
    MissReason,
    Peek,
    PutReason,
    PutResult,
    Store,
    StoreStats,
    VerifyReport,
)
from kamera.store.counters import Counters
from kamera.store.directory import Directory
from kamera.store.entry import Entry, EntryKey
from kamera.store.eviction import drop_dead_owners, evict, find_victims
from kamera.store.file_format import EntryFormatError, encode_entry
from kamera.store.index import Index
from kamera.store.owner import Owner
from kamera.store.reading import NotAFileError, is_newer, open_entry, verify_files
from kamera.store.rebuild import open_index, rebuild
from kamera.store.uses import FoundFile, Uses

__all__ = ["DiskStore"]

T = TypeVar("T")


class DiskStore(Store):
    """Entries under `directory` (made with mode 0700). `max_bytes` caps the files' bytes.

    Any number of processes may open one folder; each opens its own (not before a fork). In a folder
    that can't be written, gets work and puts fail with a reason.
    """

    def __init__(self, directory: str | Path, max_bytes: int) -> None:
        if max_bytes < 1:
            raise ConfigError(
                f"Invalid disk cap: expected max_bytes of at least 1, got {max_bytes}."
            )
        self.max_bytes = max_bytes
        self._directory = Directory(directory)
        self._lock = threading.RLock()
        self._pins: Counter[EntryKey] = Counter()
        self._uses = Uses()
        self._counters = Counters()
        self._closed = False
        self._owner = Owner(self._directory.owners)
        self._index = open_index(self._directory, self._put_aside)
        self._directory.remove_stale()
        with contextlib.suppress(sqlite3.Error):
            self.shrink(max_bytes)

    def put(self, entry: Entry) -> PutResult:
        """See `Store.put`."""
        if self._closed:
            return self._counters.put(PutResult(PutReason.WRITE_FAILED, "the store is closed"))
        parts = encode_entry(entry)
        num_bytes = sum(len(part) for part in parts)
        if num_bytes > self.max_bytes:
            detail = f"a file of {num_bytes} bytes, the whole cap is {self.max_bytes}"
            return self._counters.put(PutResult(PutReason.TOO_LARGE, detail))
        try:
            temporary = self._directory.write_temporary(parts)
        except OSError as error:
            return self._counters.put(PutResult(PutReason.WRITE_FAILED, str(error)))
        try:
            result = self._use(lambda index: self._publish(index, temporary, entry, num_bytes))
        except (OSError, sqlite3.Error) as error:
            if not temporary.exists():  # renamed, but not durable or not listed
                self._directory.discard(self._directory.file_of(entry.key))
            result = PutResult(PutReason.WRITE_FAILED, str(error))
        finally:
            self._directory.discard(temporary)
        return self._counters.put(result)

    def _publish(self, index: Index, temporary: Path, entry: Entry, num_bytes: int) -> PutResult:
        with index.transaction():
            self._tell(index, self._uses.take())
            excess = index.totals()[1] + num_bytes - self.max_bytes
            excess -= index.bytes_of(entry.key) or 0
            held = {entry.key, *self._pins}
            victims = find_victims(index, excess, held.__contains__, self._owner)
            if victims is None:
                return PutResult(PutReason.NO_ROOM, f"{num_bytes} bytes: too much is pinned")
            path = self._directory.file_of(entry.key)
            if path.is_dir():
                self._put_aside(path, MissReason.UNREADABLE)
            self._directory.publish(temporary, entry.key)
            evict(index, self._directory, victims)
            index.used(entry.key, entry.model, entry.tenant, num_bytes)
        self._counters.evicted(len(victims))
        return PutResult(PutReason.STORED)

    def shrink(self, max_bytes: int, *, spare_newer: bool = False) -> int:
        """Let the least recently used leave until no more than `max_bytes` are held, or all is pinned.

        What is of a newer format version stays if `spare_newer`. Returns how many were spared so.
        Raises `sqlite3.Error` where there is no index.
        """
        spared: set[EntryKey] = set()

        def stays(key: EntryKey) -> bool:
            if key not in spared and self.is_newer(key):
                spared.add(key)
            return key in spared

        def shrink(index: Index) -> int:
            with index.transaction():
                excess = index.totals()[1] - max_bytes
                keep = stays if spare_newer else _none_stays
                victims = find_victims(index, excess, keep, self._owner)
                if victims is None:
                    victims = [key for key, _ in index.unpinned() if not keep(key)]
                evict(index, self._directory, victims)
            self._counters.evicted(len(victims))
            return len(spared)

        return self._use(shrink)

    def forget_missing(self) -> int:
        """Take off the index what somebody removed from the folder; returns how many those were.

        Raises `sqlite3.Error` where there is no index.
        """

        def forget(index: Index) -> int:
            with index.transaction():
                listed = index.keys()
                gone = [key for key in listed if not self.contains(key)]
                for key in gone:
                    index.remove(key)
            return len(gone)

        return self._use(forget)

    def get(self, key: EntryKey, *, model: str, tenant: str | None) -> Hit | Miss:
        """See `Store.get`."""
        return self._counters.got(self._find(key, model, tenant))

    def _find(self, key: EntryKey, model: str, tenant: str | None) -> Hit | Miss:
        if self._closed:
            return Miss(MissReason.UNREADABLE, "the store is closed")
        name = self._directory.name_of(key)
        try:
            with open_entry(name, key, self.max_bytes) as opened:
                if opened.header.model != model:
                    return Miss(MissReason.FOREIGN, f"{key} is of another model")
                if opened.header.tenant != tenant:
                    return Miss(MissReason.FOREIGN, f"{key} is of another tenant")
                entry, num_bytes = opened.read(), opened.num_bytes
        except FileNotFoundError:
            return self._absent(key)
        except EntryFormatError as error:
            if error.reason is not MissReason.NEWER:
                self._condemn(key, error.inode, error.reason)
            return Miss(error.reason, f"{key}: {error}")
        except NotAFileError as error:
            self._condemn(key, None, MissReason.UNREADABLE)
            return Miss(MissReason.UNREADABLE, f"{key}: {error}")
        except OSError as error:
            return Miss(MissReason.UNREADABLE, f"{key}: {error}")
        self._use_later(key, FoundFile(model, tenant, num_bytes))
        return Hit(entry)

    def _absent(self, key: EntryKey) -> Miss:
        def forget(index: Index) -> bool:
            if index.bytes_of(key) is not None:
                with index.transaction():
                    if not self.contains(key):
                        index.remove(key)
            return index.was_evicted(key)

        with contextlib.suppress(sqlite3.Error):
            if self._use(forget):
                return Miss(MissReason.EVICTED, f"{key} left for want of room")
        return Miss(MissReason.UNKNOWN, f"{key} was never stored here")

    def _use_later(self, key: EntryKey, found: FoundFile | None) -> None:
        if self._uses.add(key, found):
            self._tell_index()

    def _tell_index(self) -> None:
        uses = self._uses.take()
        if uses:
            with contextlib.suppress(sqlite3.Error):
                self._use(lambda index: self._tell_at_once(index, uses))

    def _tell_at_once(self, index: Index, uses: dict[EntryKey, FoundFile | None]) -> None:
        with index.transaction():
            self._tell(index, uses)

    def _tell(self, index: Index, uses: dict[EntryKey, FoundFile | None]) -> None:
        """Count the uses, and list what was read and isn't listed. Call it inside a transaction."""
        for key, found in uses.items():
            if not index.touch(key) and found is not None and self.contains(key):
                index.used(key, found.model, found.tenant, found.num_bytes)

    def _condemn(self, key: EntryKey, inode: int | None, reason: MissReason) -> None:
        """Put a bad file aside, unless a good one has taken its place meanwhile."""
        path = self._directory.file_of(key)

        def condemn(index: Index) -> None:
            with index.transaction():
                if inode is None or path.stat().st_ino == inode:
                    self._put_aside(path, reason)

        with contextlib.suppress(sqlite3.Error, OSError):
            self._use(condemn)

    def _put_aside(self, path: Path, reason: MissReason) -> None:
        if self._directory.quarantine(path, reason.value):
            self._counters.quarantined()

    def touch(self, key: EntryKey) -> None:
        """Count a use of `key` without reading it."""
        self._use_later(key, None)

    def contains(self, key: EntryKey) -> bool:
        """See `Store.contains`. Whether something lies there under its name: a get says if it is good."""
        return not self._closed and os.access(self._directory.name_of(key), os.F_OK)

    def contains_each(self, kind: str, digests: Sequence[str]) -> list[bool]:
        """See `Store.contains_each`."""
        if self._closed:
            return [False] * len(digests)
        return self._directory.has_each(kind, digests)

    def may_contain(self, kind: str) -> bool:
        """See `Store.may_contain`. True for good once there was one."""
        return not self._closed and self._directory.has_folder(kind)

    def peek(self, key: EntryKey) -> Peek | None:
        """See `Store.peek`. A put brings another file, and so another inode or time."""
        if self._closed:
            return None
        try:
            found = os.stat(self._directory.name_of(key), follow_symlinks=False)
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return Peek(found.st_size, (found.st_ino, found.st_mtime_ns))

    def in_memory(self, key: EntryKey) -> bool:
        """See `Store.in_memory`. What the system caches of a file isn't known."""
        return False

    @contextmanager
    def pin(self, key: EntryKey) -> Iterator[bool]:
        """See `Store.pin`."""
        with self._lock:
            self._pins[key] += 1
            with contextlib.suppress(sqlite3.Error):
                self._use(lambda index: index.add_pin(self._owner.name, key))
        try:
            yield self.contains(key)
        finally:
            with self._lock:
                self._pins[key] -= 1
                if not self._pins[key]:
                    del self._pins[key]
                    with contextlib.suppress(sqlite3.Error):
                        self._use(lambda index: index.remove_pin(self._owner.name, key))

    def delete(self, key: EntryKey) -> bool:
        """See `Store.delete`."""

        def delete(index: Index) -> bool:
            with index.transaction():
                drop_dead_owners(index, self._owner)
                if self._pins[key] or index.is_pinned(key) or not self.contains(key):
                    return False
                self._directory.file_of(key).unlink()
                index.remove(key)
                self._uses.forget(key)
                return True

        try:
            return self._use(delete)
        except (OSError, sqlite3.Error):
            return False

    def keys(self) -> list[EntryKey]:
        """See `Store.keys`."""
        self._tell_index()
        with contextlib.suppress(sqlite3.Error):
            return self._use(lambda index: index.keys())
        return [] if self._closed else sorted(key for key, _ in self._directory.files())

    def stats(self) -> StoreStats:
        """See `Store.stats`. Counts file bytes, and the pins of every process."""
        try:
            (num_entries, num_bytes), num_pinned = self._use(
                lambda index: (index.totals(), index.num_pinned())
            )
        except sqlite3.Error:
            sizes = [] if self._closed else self._directory.sizes()
            num_entries, num_bytes, num_pinned = len(sizes), sum(sizes), len(self._pins)
        return self._counters.stats(
            num_entries=num_entries,
            num_bytes=num_bytes,
            max_bytes=self.max_bytes,
            num_pinned=num_pinned,
        )

    def is_newer(self, key: EntryKey) -> bool:
        """Whether the file of `key` is of a newer format version than this Kamera reads. Reads its header."""
        return not self._closed and is_newer(self._directory.name_of(key), key)

    def put_aside(self) -> list[Path]:
        """What lies in the quarantine."""
        return self._directory.put_aside()

    def empty_quarantine(self) -> int:
        """Remove what was put aside; returns how many could be removed."""
        return self._directory.empty_quarantine()

    def verify(self) -> VerifyReport:
        """See `Store.verify`."""
        return verify_files(self._directory, self.max_bytes)

    def rebuild_index(self) -> int:
        """Make the index anew from the files; returns the number of entries."""
        return self._use(lambda index: rebuild(index, self._directory, self._put_aside))

    def check_integrity(self) -> None:
        """See `Store.check_integrity`."""
        if not self._closed:
            self._tell_index()
            self._use(self._check)

    def _check(self, index: Index) -> None:
        with index.transaction():
            if index.totals() != index.counted_totals():
                raise AssertionError(f"index totals {index.totals()} != {index.counted_totals()}")
            listed_keys = index.keys()
            for key in listed_keys:
                path, listed = self._directory.file_of(key), index.bytes_of(key)
                if not path.is_file() or path.stat().st_size != listed:
                    raise AssertionError(f"index lists {key} with {listed} bytes; the file differs")

    def close(self) -> None:
        """See `Store.close`. Pins that are still held here end."""
        with self._lock:
            if self._closed:
                return
            self._tell_index()
            with contextlib.suppress(sqlite3.Error):
                self._use(lambda index: index.remove_owner(self._owner.name))
            self._closed = True
            if self._index is not None:
                self._index.close()
                self._index = None
            self._owner.close()

    def _use(self, action: Callable[[Index], T]) -> T:
        """Run `action` on the index, alone; an index that turns out corrupt is rebuilt once."""
        with self._lock:
            if self._index is None:
                raise sqlite3.OperationalError("there is no index (closed, or a read-only folder)")
            try:
                return action(self._index)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                self._index.close()
                self._index = open_index(self._directory, self._put_aside, is_suspect=True)
                if self._index is None:
                    raise
                for key in self._pins:
                    self._index.add_pin(self._owner.name, key)
                return action(self._index)


def _none_stays(_: EntryKey) -> bool:
    return False
