"""Memory over disk: reads come from memory, writes go to both, a restart loses nothing."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

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
from kamera.store.disk import DiskStore
from kamera.store.entry import Entry, EntryKey
from kamera.store.memory import MemoryStore

__all__ = ["TieredStore"]


class TieredStore(Store):
    """A memory tier over a disk tier; owns both. A disk hit is promoted into memory.

    Memory hits are told to the disk tier, so that it evicts by real use.
    """

    def __init__(self, memory: MemoryStore, disk: DiskStore) -> None:
        self.memory = memory
        self.disk = disk
        self._lock = threading.RLock()
        self._counters = Counters()
        self._num_memory_only = 0
        self._num_writes = 0  # puts and deletes: a promotion never crosses one

    def put(self, entry: Entry) -> PutResult:
        """See `Store.put`. The disk's result; MEMORY_ONLY if just the memory tier took it."""
        on_disk = self.disk.put(entry)
        with self._lock:
            self._num_writes += 1
            in_memory = self.memory.put(entry)
        if not in_memory:
            self.memory.delete(entry.key)  # an older entry of the key isn't served any more
        if in_memory and not on_disk:
            with self._lock:
                self._num_memory_only += 1  # what the disk has under the key, if anything, is older
            detail = f"the disk tier didn't take it: {on_disk.reason.value}, {on_disk.detail}"
            return self._counters.put(PutResult(PutReason.MEMORY_ONLY, detail))
        return self._counters.put(on_disk)

    def get(self, key: EntryKey, *, model: str, tenant: str | None) -> Hit | Miss:
        """See `Store.get`."""
        with self._lock:
            num_writes = self._num_writes
        found = self.memory.get(key, model=model, tenant=tenant)
        if isinstance(found, Hit):
            self.disk.touch(key)
        elif found.reason is not MissReason.FOREIGN:
            found = self.disk.get(key, model=model, tenant=tenant)
            if isinstance(found, Hit):
                with self._lock:
                    if num_writes == self._num_writes:
                        self.memory.adopt(found.entry)
        return self._counters.got(found)

    def peek(self, key: EntryKey) -> Peek | None:
        """See `Store.peek`. The disk's version where it has the entry: promotion doesn't change it."""
        in_memory, on_disk = self.memory.peek(key), self.disk.peek(key)
        if in_memory is None or on_disk is None:
            only = in_memory or on_disk
            return only and replace(only, version=(only.version, self._num_memory_only))
        version = (on_disk.version, self._num_memory_only)
        return Peek(in_memory.num_bytes, version)

    def in_memory(self, key: EntryKey) -> bool:
        """See `Store.in_memory`."""
        return self.memory.contains(key)

    def contains(self, key: EntryKey) -> bool:
        """See `Store.contains`."""
        return self.memory.contains(key) or self.disk.contains(key)

    def contains_each(self, kind: str, digests: Sequence[str]) -> list[bool]:
        """See `Store.contains_each`. The disk is asked for what memory hasn't."""
        in_memory = self.memory.contains_each(kind, digests)
        others = [digest for digest, held in zip(digests, in_memory, strict=True) if not held]
        on_disk = iter(self.disk.contains_each(kind, others))
        return [held or next(on_disk) for held in in_memory]

    def may_contain(self, kind: str) -> bool:
        """See `Store.may_contain`."""
        return self.memory.may_contain(kind) or self.disk.may_contain(kind)

    @contextmanager
    def pin(self, key: EntryKey) -> Iterator[bool]:
        """See `Store.pin`. Held in both tiers."""
        with self.memory.pin(key) as in_memory, self.disk.pin(key) as on_disk:
            yield in_memory or on_disk

    def delete(self, key: EntryKey) -> bool:
        """See `Store.delete`. False if either tier still has it."""
        with self._lock:
            self._num_writes += 1
            held = self.contains(key)
            if self.disk.contains(key) and not self.disk.delete(key):
                return False
            self.memory.delete(key)
            return held and not self.contains(key)

    def keys(self) -> list[EntryKey]:
        """See `Store.keys`. The disk's order, then what memory alone holds."""
        on_disk, in_memory = self.disk.keys(), self.memory.keys()
        known = set(on_disk)
        return on_disk + [key for key in in_memory if key not in known]

    def stats(self) -> StoreStats:
        """See `Store.stats`. Sizes and caps are sums over the tiers; entries are counted once."""
        memory, disk = self.memory.stats(), self.disk.stats()
        held = self.memory.keys()
        only_in_memory = sum(not self.disk.contains(key) for key in held)
        return self._counters.stats(
            num_entries=disk.num_entries + only_in_memory,
            num_bytes=memory.num_bytes + disk.num_bytes,
            max_bytes=memory.max_bytes + disk.max_bytes,
            num_pinned=max(memory.num_pinned, disk.num_pinned),
            tiers={"memory": memory, "disk": disk},
        )

    def verify(self) -> VerifyReport:
        """See `Store.verify`. The disk's report: memory has nothing to verify."""
        return self.disk.verify()

    def check_integrity(self) -> None:
        """See `Store.check_integrity`."""
        self.memory.check_integrity()
        self.disk.check_integrity()

    def close(self) -> None:
        """See `Store.close`. Closes both tiers."""
        self.memory.close()
        self.disk.close()
