"""Images that were sent, kept so that a canonical that was evicted can be made again."""

from collections import OrderedDict
from dataclasses import dataclass

from kamera.engines.vllm.fill.source import ImageSource


@dataclass(frozen=True)
class Kept:
    """An image and when its solo request was last sent."""

    source: ImageSource
    sent_at: float


class KeptImages:
    """By vLLM's hash and the salt, within `max_bytes`; the longest unused go first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._kept: OrderedDict[tuple[str, str | None], Kept] = OrderedDict()

    @property
    def num_bytes(self) -> int:
        """What all of them hold."""
        return self._num_bytes

    def put(self, mm_hash: str, source: ImageSource, now: float) -> None:
        """Keep it as sent now."""
        key = (mm_hash, source.cache_salt)
        old = self._kept.pop(key, None)
        if old is not None:
            self._num_bytes -= old.source.num_bytes
        self._kept[key] = Kept(source, now)
        self._num_bytes += source.num_bytes
        while self._num_bytes > self._max_bytes:
            _, gone = self._kept.popitem(last=False)
            self._num_bytes -= gone.source.num_bytes

    def get(self, mm_hash: str, cache_salt: str | None) -> Kept | None:
        """The image, if it is still kept."""
        key = (mm_hash, cache_salt)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
        return kept
