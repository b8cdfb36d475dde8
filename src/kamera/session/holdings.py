"""The planner's catalog of a live session: its residents, and what its library lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from kamera.library import Library
from kamera.planner import ChunkRecord, ConditionedRecord, PatchRecord
from kamera.session.resident import Resident


@dataclass(frozen=True)
class Holdings:
    """Answers from the books alone: nothing is read from the store but its index.

    `slots` gives the chunk of each resident's slot; `ever_left` are the chunks that left the window.
    """

    library: Library
    residents: Mapping[str, Resident]
    slots: Mapping[str, str]
    ever_left: Collection[str]

    def window(self, chunks: tuple[str, ...]) -> list[ChunkRecord]:
        """What is held of each chunk in this window. Of KV that leads nothing else is looked at."""
        asked = [i for i in range(len(chunks)) if not (i and self._leads(chunks, i))]
        found = self.library.look_up(chunks, asked)
        records = []
        for index, chunk in enumerate(chunks):
            patch = found.get(index)
            records.append(
                ChunkRecord(
                    index in found,
                    () if patch is None else (patch,),
                    self._conditioned.get(chunk, ()),
                    chunk in self.ever_left,
                )
            )
        return records

    def served(
        self, chunks: tuple[str, ...], contexts: Mapping[int, str]
    ) -> dict[int, PatchRecord]:
        """The patches that are listed for chunks in these contexts."""
        return self.library.look_up_served(chunks, contexts)

    def _leads(self, chunks: tuple[str, ...], index: int) -> bool:
        """Whether the window holds the chunk's KV on exactly those in front."""
        conditioned = self._conditioned.get(chunks[index])
        return conditioned is not None and any(
            held.antecedents == chunks[:index] for held in conditioned
        )

    @cached_property
    def _conditioned(self) -> dict[str, tuple[ConditionedRecord, ...]]:
        """What is held, by chunk."""
        found: dict[str, tuple[ConditionedRecord, ...]] = {}
        for name, resident in self.residents.items():
            record = ConditionedRecord(resident.antecedents, name, resident.point, resident.name)
            chunk = self.slots[name]
            found[chunk] = (*found.get(chunk, ()), record)
        return found
