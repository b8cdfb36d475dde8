"""Counts of what happened to a store, by reason."""

import threading
from collections import Counter

from kamera.store.contract import Hit, Miss, MissReason, PutReason, PutResult, StoreStats

__all__ = ["Counters"]


class Counters:
    """Thread-safe tallies. `got` and `put` return what they count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hits = 0
        self._puts = 0
        self._evictions = 0
        self._quarantined = 0
        self._misses: Counter[MissReason] = Counter()
        self._failed_puts: Counter[PutReason] = Counter()

    def got(self, result: Hit | Miss) -> Hit | Miss:
        """Count a get."""
        with self._lock:
            if isinstance(result, Miss):
                self._misses[result.reason] += 1
            else:
                self._hits += 1
        return result

    def put(self, result: PutResult) -> PutResult:
        """Count a put."""
        with self._lock:
            if result.stored:
                self._puts += 1
            else:
                self._failed_puts[result.reason] += 1
        return result

    def evicted(self, count: int) -> None:
        """Count evictions."""
        with self._lock:
            self._evictions += count

    def quarantined(self) -> None:
        """Count a file that was moved aside."""
        with self._lock:
            self._quarantined += 1

    def stats(
        self,
        *,
        num_entries: int,
        num_bytes: int,
        max_bytes: int,
        num_pinned: int,
        tiers: dict[str, StoreStats] | None = None,
    ) -> StoreStats:
        """The counts so far, with the store's present sizes."""
        with self._lock:
            return StoreStats(
                num_entries=num_entries,
                num_bytes=num_bytes,
                max_bytes=max_bytes,
                num_pinned=num_pinned,
                hits=self._hits,
                puts=self._puts,
                evictions=self._evictions,
                quarantined=self._quarantined,
                misses={reason: self._misses[reason] for reason in MissReason},
                failed_puts={
                    reason: self._failed_puts[reason]
                    for reason in PutReason
                    if not PutResult(reason).stored
                },
                tiers=tiers or {},
            )
