"""The catalog: what is known of each chunk, as plain data.

Records are tuples: a plan makes some hundreds of them, within a millisecond.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from kamera.planner.points import OperatingPoint

PatchKind = Literal["exact", "orbit", "served"]
"""exact: formed behind re-prefill's own KV. served: formed behind a window that held approximate KV."""


class PatchRecord(NamedTuple):
    """A stored patch: the antecedents it was formed on (in any order for an orbit patch), what it keeps.

    `rank` is its rank, or the words of its profile where that is more than a rank.
    `context` names how these were made, for a served patch alone.
    """

    kind: PatchKind
    antecedents: tuple[str, ...]
    rank: int | str
    context: str = ""

    @property
    def shown(self) -> str:
        """What it keeps, for a person."""
        return f"rank {self.rank}" if isinstance(self.rank, int) else self.rank


class ConditionedRecord(NamedTuple):
    """Conditioned KV held in the window: the antecedents it was formed on, and the slot that holds it.

    `point` and `name` say how it was made: `point` is LEADING for KV that is what re-prefill caches
    behind these antecedents (`name` is then the chunk's own), else the lane that made it.
    """

    antecedents: tuple[str, ...]
    slot: str
    point: OperatingPoint = OperatingPoint.LEADING
    name: str = ""


class ChunkRecord(NamedTuple):
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
