"""The planner's catalog of a live session: its residents, and what its library lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

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
        conditioned = self._conditioned.get(chunk, ())
        if antecedents and any(held.antecedents == antecedents for held in conditioned):
            return ChunkRecord(conditioned=conditioned)  # leads: nothing else is looked at
        known, evicted = self.chunks[chunk], chunk in self.ever_left
        if not self.library.has_canonical(known):
            return ChunkRecord(conditioned=conditioned, evicted=evicted)
        patch = self.library.best_patch(known, antecedents, context) if antecedents else None
        return ChunkRecord(True, () if patch is None else (patch,), conditioned, evicted)

    @cached_property
    def _conditioned(self) -> dict[str, tuple[ConditionedRecord, ...]]:
        """What is held, by chunk."""
        found: dict[str, tuple[ConditionedRecord, ...]] = {}
        for name, resident in self.residents.items():
            record = ConditionedRecord(resident.antecedents, name, resident.point, resident.name)
            chunk = self.slots[name]
            found[chunk] = (*found.get(chunk, ()), record)
        return found
