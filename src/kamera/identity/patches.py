"""The names of patches: of a chunk, what stood in front when its patch was formed, and what a patch keeps."""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from kamera.errors import ConfigError
from kamera.identity.digests import DIGEST_LEN
from kamera.identity.encoding import encode

__all__ = ["PatchNames"]

PATCH_VERSION = 2


class PatchNames:
    """The names of all patches that keep what `kept` says: a rank, or the words of a profile.

    A name is SHA-256, in hex, of a head and then of digests, each by its 32 bytes. The head is the typed
    encoding of `["kamera.patch", version, kind, kept]`.

        exact    head, the antecedents in order, the chunk
        served   head, the antecedents in order, the chunk, the context: how the antecedents were made
        orbit    head, the chunk, the antecedents sorted: a repeated one counts

    So the names of a whole window are one digest that grows with it, read behind each chunk.

    `window` is always the digests of a window's chunks, and the places that are asked for ascend: each one's
    chunk has all those in front of it as its antecedents. `ConfigError` if one is no digest.
    """

    def __init__(self, kept: int | str) -> None:
        self._exact, self._orbit, self._served = _heads(kept)

    def exact(self, window: Sequence[str], places: Sequence[int]) -> Iterator[str]:
        """For each place the name for its antecedents in their order."""
        chunks, run, end = _bytes_of(window), self._exact.copy(), 0
        for place in places:
            run.update(b"".join(chunks[end : place + 1]))
            end = place + 1
            yield run.copy().hexdigest()

    def orbit(self, window: Sequence[str], places: Sequence[int]) -> Iterator[str]:
        """For each place the name for its antecedents in any order."""
        chunks, in_front = _bytes_of(window), list[bytes]()
        for place in places:
            for chunk in chunks[len(in_front) : place]:
                insort(in_front, chunk)
            name = self._orbit.copy()
            name.update(chunks[place] + b"".join(in_front))
            yield name.hexdigest()

    def served(self, window: Sequence[str], contexts: Mapping[int, str]) -> Iterator[str]:
        """For each place the name for its antecedents as its context, a digest too, says they were made."""
        chunks, run, end = _bytes_of(window), self._served.copy(), 0
        for place, made in zip(contexts, _bytes_of([*contexts.values()]), strict=True):
            run.update(b"".join(chunks[end : place + 1]))
            end = place + 1
            name = run.copy()
            name.update(made)
            yield name.hexdigest()


@lru_cache(maxsize=16)
def _heads(kept: int | str) -> tuple[hashlib._Hash, ...]:
    """The start of each kind's names. They are copied before anything is added."""
    return tuple(
        hashlib.sha256(encode(["kamera.patch", PATCH_VERSION, kind, kept]))
        for kind in ("exact", "orbit", "served")
    )


def _bytes_of(digests: Sequence[str]) -> list[bytes]:
    """Of one length each, so that those which stand side by side have one reading."""
    try:
        found = [bytes.fromhex(digest) for digest in digests]
    except ValueError:
        found = [b""]
    if set(map(len, found)) - {DIGEST_LEN // 2}:
        raise ConfigError(
            f"Not digests: expected {DIGEST_LEN} hex characters each, got {list(digests)!r:.200}. "
            "Take a chunk's from its key's `.digest`, a context from `Front.context`."
        )
    return found
