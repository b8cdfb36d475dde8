"""The catalog: what is known of each chunk, as plain data.

Records are tuples: a plan makes some hundreds of them, within a millisecond.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from kamera.planner.names import formed_name
from kamera.planner.points import OperatingPoint

PatchKind = Literal["exact", "orbit", "served"]
"""exact: formed behind re-prefill's own KV. served: formed behind a window that held approximate KV."""


class PatchRecord(NamedTuple):
    """A stored patch: the antecedents it was formed on (in any order for an orbit patch), what it keeps.

    `name` is the store's: that of its chunk, its kind, its antecedents and what it keeps, all in one.
    `rank` is its rank, or the words of its profile where that is more than a rank.
    `context` names how these were made, for a served patch alone.
    """

    name: str
    kind: PatchKind
    antecedents: tuple[str, ...]
    rank: int | str
    context: str = ""

    @property
    def shown(self) -> str:
        """What it keeps, for a person."""
        return f"rank {self.rank}" if isinstance(self.rank, int) else self.rank

    def kv_name(self, chunk: str) -> str:
        """The name of the KV of `chunk`, whose patch it is, when it serves it.

        A served patch stands for the KV that it was formed from, as an exact patch does for exact KV.
        """
        return formed_name(chunk, self.context) if self.kind == "served" else self.name


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

    def window(self, chunks: tuple[str, ...]) -> Sequence[ChunkRecord]:
        """Each chunk's record in this window.

        Of its patches, at least the best one for all the chunks in front, exact or the orbit's.
        """

    def served(
        self, chunks: tuple[str, ...], contexts: Mapping[int, str]
    ) -> Mapping[int, PatchRecord]:
        """For places of this window the patches that were formed in these contexts, where there is one."""


@dataclass(frozen=True)
class StaticCatalog:
    """Chunk digest -> record. A chunk that isn't in it was never seen."""

    records: Mapping[str, ChunkRecord] = field(default_factory=dict)

    def window(self, chunks: tuple[str, ...]) -> list[ChunkRecord]:
        """The chunks' records; an empty one for what is unknown."""
        return [self.records.get(chunk, ChunkRecord()) for chunk in chunks]

    def served(
        self, chunks: tuple[str, ...], contexts: Mapping[int, str]
    ) -> dict[int, PatchRecord]:
        """Those among the chunks' patches."""
        return {
            place: patch
            for place, context in contexts.items()
            for patch in self.window(chunks)[place].patches
            if (patch.kind, patch.antecedents, patch.context) == ("served", chunks[:place], context)
        }
