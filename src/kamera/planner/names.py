"""Names of KV as it stands in a window: two are the same only if it was made the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache


def served_name(chunk: str, *how: str) -> str:
    """The name of a chunk's KV as it stands in a window: 64 hex digits that depend on how it was made."""
    return hashlib.sha256(repr(("kamera.served", chunk, *how)).encode()).hexdigest()


def context_of(names: Sequence[str]) -> str:
    """The name of all that stands in front of a chunk, as it was made."""
    return _context_of(tuple(names))


class Front:
    """What stands in front of the next chunk, named as it grows: one step of the hash for each chunk."""

    def __init__(self) -> None:
        self._chunks = hashlib.sha256(_encoded("kamera.context"))
        self._names = self._chunks
        self._is_exact = True

    @property
    def behind(self) -> str:
        """`context_of` the chunks' digests, however they were made."""
        return self._chunks.copy().hexdigest()

    @property
    def context(self) -> str:
        """`context_of` the names; empty when all of it is exact."""
        return "" if self._is_exact else self._names.copy().hexdigest()

    def add(self, chunk: str, name: str) -> None:
        """One more chunk, and the name of its KV: the chunk's own when it is exact."""
        if self._is_exact and name != chunk:
            self._is_exact = False
            self._names = self._chunks.copy()
        self._chunks.update(_encoded(chunk))
        if not self._is_exact:
            self._names.update(_encoded(name))


@lru_cache(maxsize=1024)
def _context_of(names: tuple[str, ...]) -> str:
    return hashlib.sha256(_encoded("kamera.context", *names)).hexdigest()


def _encoded(*parts: str) -> bytes:
    """The parts one after the other, each with its length in front: no other parts have these bytes."""
    return "".join([f"{len(part)}:{part}" for part in parts]).encode()
