"""What the companion did."""

from dataclasses import asdict, dataclass


@dataclass
class FillCounters:
    """Totals since the server started.

    Attributes:
        num_bodies: request bodies looked at.
        num_images: images in them, known ones included.
        num_known: sources that had been taken before.
        num_sent: solo requests that ended well.
        num_sent_tokens: prompt tokens of those.
        num_failed: solo requests that ended badly; the log says why.
        num_retried: sent again because the chunk was still wanted.
        num_skipped_large: bodies over the cap.
        num_dropped_bodies, num_dropped_sources: those that found a queue full.
        num_watch_errors: bugs in the watching of a request; the request itself was never touched.
    """

    num_bodies: int = 0
    num_images: int = 0
    num_known: int = 0
    num_sent: int = 0
    num_sent_tokens: int = 0
    num_failed: int = 0
    num_retried: int = 0
    num_skipped_large: int = 0
    num_dropped_bodies: int = 0
    num_dropped_sources: int = 0
    num_watch_errors: int = 0

    def to_json(self) -> dict[str, int]:
        """Plain values, by name."""
        return asdict(self)
