"""Names of KV as it stands in a window: two are the same only if it was made the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

_CONTEXT = b"kamera.context "


def served_name(chunk: str, *how: str) -> str:
    """The name of a chunk's KV as it stands in a window: 64 hex digits that depend on how it was made."""
    return hashlib.sha256(repr(("kamera.served", chunk, *how)).encode()).hexdigest()


def formed_name(chunk: str, context: str) -> str:
    """The name of KV that was prefilled in a context: the chunk's own where that is empty."""
    if not context:
        return chunk
    return hashlib.sha256(f"kamera.formed {len(chunk)}:{chunk}{context}".encode()).hexdigest()


def context_of(names: Sequence[str]) -> str:
    """The name of all that stands in front of a chunk, as it was made."""
    return _context_of(tuple(names))


class Front:
    """What stands in front of the next chunk, as it was made.

    Attributes:
        context: `context_of` the names of what was added; empty while all of it is exact. It grows by one
            step of the digest for each chunk.
    """

    def __init__(self) -> None:
        self.context = ""
        self._exact: list[str] = []
        self._names = hashlib.sha256(_CONTEXT)

    def add(self, chunk: str, name: str) -> None:
        """One more chunk, and the name of its KV: the chunk's own when it is exact."""
        if not self.context:
            if name == chunk:
                self._exact.append(chunk)
                return
            self._names.update(b"".join(map(_encoded, self._exact)))
        self._names.update(_encoded(name))
        self.context = self._names.copy().hexdigest()


@lru_cache(maxsize=1024)
def _context_of(names: tuple[str, ...]) -> str:
    return hashlib.sha256(_CONTEXT + b"".join(map(_encoded, names))).hexdigest()


def _encoded(part: str) -> bytes:
    """A part with its length in front: no two sequences of parts have the same bytes."""
    return f"{len(part)}:{part}".encode()
