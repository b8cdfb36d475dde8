"""The catalog: what is known of each chunk, as plain data."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from kamera.planner.points import OperatingPoint

PatchKind = Literal["exact", "orbit", "served"]
"""exact: formed behind re-prefill's own KV. served: formed behind a window that held approximate KV."""


def served_name(chunk: str, *how: str) -> str:
    """The name of a chunk's KV as it stands in a window: 64 hex digits that depend on how it was made."""
    return _name("kamera.served", chunk, *how)


def context_of(names: Sequence[str]) -> str:
    """The name of all that stands in front of a chunk, as it was made."""
    return _name("kamera.context", *names)


def _name(*parts: str) -> str:
    encoded = b"".join(len(part.encode()).to_bytes(8, "little") + part.encode() for part in parts)
    return hashlib.sha256(encoded).hexdigest()


@dataclass(frozen=True)
class PatchRecord:
    """A stored patch: the antecedents it was formed on (in any order for an orbit patch), its rank.

    `context` names how these were made, for a served patch alone.
    """

    kind: PatchKind
    antecedents: tuple[str, ...]
    rank: int
    context: str = ""


@dataclass(frozen=True)
class ConditionedRecord:
    """Conditioned KV held in the window: the antecedents it was formed on, and the slot that holds it.

    `point` and `name` say how it was made: `point` is LEADING for KV that is what re-prefill caches
    behind these antecedents (`name` is then the chunk's own), else the lane that made it.
    """

    antecedents: tuple[str, ...]
    slot: str
    point: OperatingPoint = OperatingPoint.LEADING
    name: str = ""


@dataclass(frozen=True)
class ChunkRecord:
    """What is held of one chunk."""

    canonical: bool = False
    patches: tuple[PatchRecord, ...] = ()
    conditioned: tuple[ConditionedRecord, ...] = ()
    evicted: bool = False
    """Whether the chunk was in this window before and left it."""


@runtime_checkable
class Catalog(Protocol):
    """What is known. The same questions get the same answers while a plan is made."""

    def of(self, chunk: str, antecedents: tuple[str, ...], context: str) -> ChunkRecord:
        """The record of `chunk`; of its patches, at least those for these antecedents and this context."""


@dataclass(frozen=True)
class StaticCatalog:
    """Chunk digest -> record. A chunk that isn't in it was never seen."""

    records: Mapping[str, ChunkRecord] = field(default_factory=dict)

    def of(self, chunk: str, antecedents: tuple[str, ...] = (), context: str = "") -> ChunkRecord:
        """The chunk's record; an empty one if it is unknown."""
        return self.records.get(chunk, ChunkRecord())
