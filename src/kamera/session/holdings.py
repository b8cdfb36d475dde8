"""The planner's catalog of a live session: its residents, and what its library lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kamera.chunk import Chunk
from kamera.library import Library
from kamera.planner import ChunkRecord, ConditionedRecord
from kamera.session.resident import Resident


@dataclass(frozen=True)
class Holdings:
    """Answers from the books alone: nothing is read from the store but its index.

    `slots` gives the chunk of each resident's slot; `ever_left` are the chunks that left the window.
    """

    library: Library
    chunks: Mapping[str, Chunk]
    residents: Mapping[str, Resident]
    slots: Mapping[str, str]
    ever_left: Collection[str]

    def of(self, chunk: str, antecedents: tuple[str, ...], context: str) -> ChunkRecord:
        """What is held of `chunk` behind these antecedents, made as `context` says."""
        conditioned = tuple(
            ConditionedRecord(resident.antecedents, name, resident.point, resident.name)
            for name, resident in self.residents.items()
            if self.slots[name] == chunk
        )
        return ChunkRecord(
            canonical=self.library.has_canonical(self.chunks[chunk]),
            patches=self.library.patches(self.chunks[chunk], antecedents, context),
            conditioned=conditioned,
            evicted=chunk in self.ever_left,
        )
