"""Sources that wait, each once."""

import math
from collections import OrderedDict, deque

from kamera.engines.vllm.fill.source import ImageSource, Source

_MAX_KNOWN = 65536
"""Digests that are remembered: a longer-lived server forgets the oldest, and sends them again."""


class Intake:
    """A queue that takes the same source once, bounded in number and in bytes.

    A url that may show something else later counts as new again after `renew_s`.
    """

    def __init__(self, max_waiting: int, max_bytes: int, renew_s: float = 600.0) -> None:
        self._max_waiting, self._max_bytes, self._renew_s = max_waiting, max_bytes, renew_s
        self._num_bytes = 0
        self._waiting: deque[Source] = deque()
        self._waiting_digests: set[str] = set()
        self._known_until: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def knows(self, source: Source, now: float) -> bool:
        """Whether it waits or was taken before."""
        return now < self._known_until.get(source.digest, -math.inf)

    def failed(self, source: Source, until: float) -> None:
        """Its solo request ended badly: from `until` on another sight counts as new."""
        self._known_until[source.digest] = until

    def add(self, source: Source, now: float, again: bool = False) -> bool:
        """Append it, unless it is known (and `again` doesn't ask for it) or the queue is full.

        Returns:
            Whether it was appended. A source that found the queue full is forgotten, so that its next
            sight gets another chance.
        """
        if source.digest in self._waiting_digests or not self._has_room(source):
            return False
        if self.knows(source, now) and not again:
            return False
        renews = isinstance(source, ImageSource) and source.changes
        self._known_until[source.digest] = now + self._renew_s if renews else math.inf
        self._known_until.move_to_end(source.digest)
        while len(self._known_until) > _MAX_KNOWN:
            self._known_until.popitem(last=False)
        self._waiting.append(source)
        self._waiting_digests.add(source.digest)
        self._num_bytes += source.num_bytes
        return True

    def pop(self) -> Source | None:
        """The one that waited longest; None if none waits."""
        if not self._waiting:
            return None
        source = self._waiting.popleft()
        self._waiting_digests.discard(source.digest)
        self._num_bytes -= source.num_bytes
        return source

    def _has_room(self, source: Source) -> bool:
        fits = self._num_bytes + source.num_bytes <= self._max_bytes
        return len(self._waiting) < self._max_waiting and fits
