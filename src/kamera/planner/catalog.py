"""The catalog: what is known of each chunk, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PatchKind = Literal["exact", "orbit"]


@dataclass(frozen=True)
class PatchRecord:
    """A stored patch: the antecedents it was formed on (in any order for an orbit patch), its rank."""

    kind: PatchKind
    antecedents: tuple[str, ...]
    rank: int


@dataclass(frozen=True)
class ConditionedRecord:
    """Conditioned KV held in the window: the antecedents it was formed on, and the slot that holds it."""

    antecedents: tuple[str, ...]
    slot: str


@dataclass(frozen=True)
class ChunkRecord:
    """What is held of one chunk."""

    canonical: bool = False
    patches: tuple[PatchRecord, ...] = ()
    conditioned: tuple[ConditionedRecord, ...] = ()
    evicted: bool = False
    """Whether the chunk was in this window before and left it."""


@dataclass(frozen=True)
class Catalog:
    """Chunk digest -> record. A chunk that isn't in it was never seen."""

    records: Mapping[str, ChunkRecord] = field(default_factory=dict)

    def of(self, chunk: str) -> ChunkRecord:
        """The chunk's record; an empty one if it is unknown."""
        return self.records.get(chunk, ChunkRecord())
