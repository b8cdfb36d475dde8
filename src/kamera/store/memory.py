"""A store in memory: least recently used first out, under a byte cap."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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
from kamera.store.entry import Entry, EntryKey

__all__ = ["MemoryStore"]

MAX_REMEMBERED = 65_536
"""Evicted keys that are remembered as such; an older one is UNKNOWN again."""


class MemoryStore(Store):
    """Entries in this process. `max_bytes` caps the tensors' bytes."""

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 1:
            raise ConfigError(
                f"Invalid memory cap: expected max_bytes of at least 1, got {max_bytes}."
            )
        self.max_bytes = max_bytes
        self._lock = threading.RLock()
        self._entries: OrderedDict[EntryKey, Entry] = OrderedDict()
        self._kinds: Counter[str] = Counter()
        self._evicted: OrderedDict[EntryKey, None] = OrderedDict()
        self._pins: Counter[EntryKey] = Counter()
        self._num_bytes = 0
        self._counters = Counters()
        self._closed = False

    def put(self, entry: Entry) -> PutResult:
        """See `Store.put`."""
        if entry.num_bytes > self.max_bytes:
            return self._counters.put(self._too_large(entry))
        return self.adopt(entry.copied())

    def adopt(self, entry: Entry) -> PutResult:
        """`put` without the copy: nobody may write to the entry's tensors from now on."""
        with self._lock:
            return self._counters.put(self._insert(entry))

    def _insert(self, entry: Entry) -> PutResult:
        if self._closed:
            return PutResult(PutReason.WRITE_FAILED, "the store is closed")
        if entry.num_bytes > self.max_bytes:
            return self._too_large(entry)
        old = self._entries.get(entry.key)
        excess = self._num_bytes + entry.num_bytes - self.max_bytes
        victims, freed = [], 0 if old is None else old.num_bytes
        for key, candidate in self._entries.items():
            if freed >= excess:
                break
            if key != entry.key and not self._pins[key]:
                victims.append(key)
                freed += candidate.num_bytes
        if freed < excess:
            return PutResult(
                PutReason.NO_ROOM,
                f"needs {excess} bytes more than the cap leaves, {freed} of them aren't pinned",
            )
        for key in victims:
            self._drop(key)
            self._remember(key)
        self._counters.evicted(len(victims))
        if old is not None:
            self._drop(entry.key)
        self._entries[entry.key] = entry
        self._kinds[entry.key.kind] += 1
        self._num_bytes += entry.num_bytes
        self._evicted.pop(entry.key, None)
        return PutResult(PutReason.STORED)

    def _too_large(self, entry: Entry) -> PutResult:
        detail = f"{entry.num_bytes} bytes, the whole cap is {self.max_bytes}"
        return PutResult(PutReason.TOO_LARGE, detail)

    def _drop(self, key: EntryKey) -> None:
        self._num_bytes -= self._entries.pop(key).num_bytes
        self._kinds[key.kind] -= 1

    def _remember(self, key: EntryKey) -> None:
        self._evicted[key] = None
        while len(self._evicted) > MAX_REMEMBERED:
            self._evicted.popitem(last=False)

    def get(self, key: EntryKey, *, model: str, tenant: str | None) -> Hit | Miss:
        """See `Store.get`."""
        with self._lock:
            return self._counters.got(self._find(key, model, tenant))

    def _find(self, key: EntryKey, model: str, tenant: str | None) -> Hit | Miss:
        if self._closed:
            return Miss(MissReason.UNREADABLE, "the store is closed")
        entry = self._entries.get(key)
        if entry is None:
            if key in self._evicted:
                return Miss(MissReason.EVICTED, f"{key} left for want of room")
            return Miss(MissReason.UNKNOWN, f"{key} was never stored here")
        if entry.model != model:
            return Miss(MissReason.FOREIGN, f"{key} is of another model")
        if entry.tenant != tenant:
            return Miss(MissReason.FOREIGN, f"{key} is of another tenant")
        self._entries.move_to_end(key)
        return Hit(entry)

    def peek(self, key: EntryKey) -> Peek | None:
        """See `Store.peek`."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else Peek(entry.num_bytes, entry)

    def in_memory(self, key: EntryKey) -> bool:
        """See `Store.in_memory`."""
        return self.contains(key)

    def contains(self, key: EntryKey) -> bool:
        """See `Store.contains`. One look into a dict, which needs no lock."""
        return key in self._entries

    def contains_each(self, kind: str, digests: Sequence[str]) -> list[bool]:
        """See `Store.contains_each`. A pair is equal to the key that it makes."""
        entries = self._entries
        return [(kind, digest) in entries for digest in digests]

    def may_contain(self, kind: str) -> bool:
        """See `Store.may_contain`."""
        return self._kinds[kind] > 0

    @contextmanager
    def pin(self, key: EntryKey) -> Iterator[bool]:
        """See `Store.pin`."""
        with self._lock:
            self._pins[key] += 1
            present = key in self._entries
        try:
            yield present
        finally:
            with self._lock:
                self._pins[key] -= 1
                if not self._pins[key]:
                    del self._pins[key]

    def delete(self, key: EntryKey) -> bool:
        """See `Store.delete`."""
        with self._lock:
            if key not in self._entries or self._pins[key]:
                return False
            self._drop(key)
            return True

    def keys(self) -> list[EntryKey]:
        """See `Store.keys`."""
        with self._lock:
            return list(self._entries)

    def stats(self) -> StoreStats:
        """See `Store.stats`."""
        with self._lock:
            return self._counters.stats(
                num_entries=len(self._entries),
                num_bytes=self._num_bytes,
                max_bytes=self.max_bytes,
                num_pinned=len(self._pins),
            )

    def verify(self) -> VerifyReport:
        """See `Store.verify`. Memory holds no digests of its bytes: there is nothing to find."""
        with self._lock:
            return VerifyReport(len(self._entries), ())

    def check_integrity(self) -> None:
        """See `Store.check_integrity`."""
        with self._lock:
            counted = sum(entry.num_bytes for entry in self._entries.values())
            if counted != self._num_bytes or counted > self.max_bytes:
                raise AssertionError(
                    f"memory store counts {self._num_bytes} bytes, holds {counted}, "
                    f"cap {self.max_bytes}"
                )
            if self._kinds != Counter(key.kind for key in self._entries):
                raise AssertionError(f"memory store counts {self._kinds} by kind")
            if (
                self._evicted.keys() & self._entries.keys()
                or min(self._pins.values(), default=1) < 1
            ):
                raise AssertionError(
                    "memory store: a key is both held and evicted, or a pin is stale"
                )

    def close(self) -> None:
        """See `Store.close`."""
        with self._lock:
            self._closed = True
            self._entries.clear()
            self._kinds.clear()
            self._evicted.clear()
            self._num_bytes = 0
