"""Reading ahead: the entries that a plan asks for next are read while those before them are put to use."""

import threading
from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import TracebackType

from kamera.store.contract import Hit, Miss, MissReason, Store
from kamera.store.entry import EntryKey

__all__ = ["AHEAD_BYTES", "ReadAhead"]

AHEAD_BYTES = 256 << 20
"""Bytes that are read ahead and not yet asked for, at most."""
NUM_READERS = 2


class _State(Enum):
    WAITING = 1
    READING = 2
    DONE = 3
    DROPPED = 4


@dataclass
class _Slot:
    """One place in the order."""

    key: EntryKey
    state: _State = _State.WAITING
    num_bytes: int = 0
    version: Hashable = None
    found: Hit | Miss | None = None
    is_claimed: bool = False


class ReadAhead:
    """A store's `get` for keys that will be asked for in a known order. Use it in a `with` block.

    - **The same answers.** What was read ahead is given only while the store has that very entry; else
      the store is asked again. So an entry that was replaced or has left meanwhile isn't given.
    - **Bounded.** No more than `max_bytes` are held that nobody has asked for; an entry larger than
      that isn't read ahead.
    - **Errors are misses**, with their reason, like the store's own; what a reader can't foresee is
      UNREADABLE and says what it was.
    - **It ends.** Leaving the block drops what wasn't asked for and waits for the reads that run.

    Keys that are in memory already aren't read ahead, and no thread is started for them. Keys may be
    asked for in another order, or not at all: those in front of one that is asked for are dropped. One
    that no reader has begun is read by the caller. Any thread may call `get`.

    `num_served` counts gets that were answered from what was read ahead, `num_stale` those that had to
    ask the store after all.
    """

    def __init__(
        self,
        store: Store,
        keys: Sequence[EntryKey],
        *,
        model: str,
        tenant: str | None,
        max_bytes: int = AHEAD_BYTES,
        num_readers: int = NUM_READERS,
    ) -> None:
        self._store, self._model, self._tenant = store, model, tenant
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        # The first is asked for at once: the caller reads it.
        self._slots = [_Slot(key) for key in keys[1:] if not store.in_memory(key)]
        self._places: dict[EntryKey, deque[int]] = defaultdict(deque)
        for place, slot in enumerate(self._slots):
            self._places[slot.key].append(place)
        self._next = 0
        self._front = 0
        self._num_held_bytes = 0
        self._closed = False
        self.num_served = 0
        self.num_stale = 0
        count = min(num_readers, len(self._slots))
        self._readers = [
            threading.Thread(target=self._read_all, name=f"kamera-ahead-{i}", daemon=True)
            for i in range(count)
        ]
        for reader in self._readers:
            reader.start()

    @property
    def num_held_bytes(self) -> int:
        """Bytes that are read, or being read, and not asked for."""
        with self._changed:
            return self._num_held_bytes

    def get(self, key: EntryKey, *, model: str, tenant: str | None) -> Hit | Miss:
        """See `Store.get`."""
        slot = self._claim(key) if (model, tenant) == (self._model, self._tenant) else None
        if slot is None:
            return self._store.get(key, model=model, tenant=tenant)
        assert slot.found is not None
        if self._is_current(slot):
            self.num_served += 1
            return slot.found
        self.num_stale += 1
        return self._store.get(key, model=model, tenant=tenant)

    def close(self) -> None:
        """Drop all that wasn't asked for, and wait for the reads that run."""
        with self._changed:
            self._closed = True
            for slot in self._slots:
                self._drop(slot)
            self._changed.notify_all()
        for reader in self._readers:
            reader.join()

    def __enter__(self) -> "ReadAhead":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _claim(self, key: EntryKey) -> _Slot | None:
        """The key's slot once it is read; None if the caller has to read it."""
        with self._changed:
            places = self._places.get(key)
            if not places or self._closed:
                return None
            place = places.popleft()
            for passed in self._slots[self._front : place]:
                self._drop(passed)
            self._front = max(self._front, place + 1)
            slot = self._slots[place]
            slot.is_claimed = True
            self._changed.wait_for(lambda: slot.state is not _State.READING)
            if slot.state is _State.DONE:
                self._release(slot)
                return slot
            slot.state = _State.DROPPED
            return None

    def _is_current(self, slot: _Slot) -> bool:
        """Whether the store would answer the same now; a miss's reason is kept while nothing is there."""
        now = self._store.peek(slot.key)
        if now is None:
            return isinstance(slot.found, Miss)
        return now.version == slot.version

    def _read_all(self) -> None:
        while (slot := self._begin()) is not None:
            try:
                slot.found = self._store.get(slot.key, model=self._model, tenant=self._tenant)
            except Exception as error:
                detail = f"{slot.key}: reading ahead failed: {type(error).__name__}: {error}"
                slot.found = Miss(MissReason.UNREADABLE, detail)
            with self._changed:
                if slot.state is _State.READING:
                    slot.state = _State.DONE
                else:  # dropped while it was read
                    slot.found = None
                    self._release(slot)
                self._changed.notify_all()

    def _begin(self) -> _Slot | None:
        """The next slot, now being read; waits for room. None when there is nothing left."""
        with self._changed:
            while not self._closed:
                if self._next >= len(self._slots):
                    return None
                slot = self._slots[self._next]
                if slot.state is not _State.WAITING:
                    self._next += 1
                    continue
                peek = self._store.peek(slot.key)
                if peek is None or peek.num_bytes > self._max_bytes:
                    slot.state = _State.DROPPED
                    continue
                if self._num_held_bytes + peek.num_bytes > self._max_bytes:
                    self._changed.wait()
                    continue
                slot.state, slot.num_bytes, slot.version = (
                    _State.READING,
                    peek.num_bytes,
                    peek.version,
                )
                self._num_held_bytes += peek.num_bytes
                return slot
            return None

    def _drop(self, slot: _Slot) -> None:
        """Give a slot up that nobody has claimed. One that is being read is let go of when that ends."""
        if slot.is_claimed:
            return
        if slot.state is _State.DONE:
            slot.found = None
            self._release(slot)
        slot.state = _State.DROPPED
        self._changed.notify_all()

    def _release(self, slot: _Slot) -> None:
        self._num_held_bytes -= slot.num_bytes
        slot.num_bytes = 0
        self._changed.notify_all()
