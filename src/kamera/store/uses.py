"""Uses that the index hasn't been told of yet."""

import threading
from typing import NamedTuple

from kamera.store.entry import EntryKey

__all__ = ["USES_BATCH", "FoundFile", "Uses"]

USES_BATCH = 64
"""Uses are told to the index this many at a time: a commit costs as much as reading 100 kB."""


class FoundFile(NamedTuple):
    """What a read learnt of an entry's file: enough to list one that the index missed."""

    model: str
    tenant: str | None
    num_bytes: int


class Uses:
    """The latest use of each key, oldest first. Safe between threads, and never waits for a write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[EntryKey, FoundFile | None] = {}

    def add(self, key: EntryKey, found: FoundFile | None = None) -> bool:
        """Remember a use; true once there are enough to tell. `found` is None if its file wasn't read."""
        with self._lock:
            found = self._found.pop(key, None) or found
            self._found[key] = found
            return len(self._found) >= USES_BATCH

    def forget(self, key: EntryKey) -> None:
        """The key has gone, or was listed anew."""
        with self._lock:
            self._found.pop(key, None)

    def take(self) -> dict[EntryKey, FoundFile | None]:
        """All of them; none is left."""
        with self._lock:
            found, self._found = self._found, {}
            return found
