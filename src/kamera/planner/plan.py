"""plan(): walk the window from the front and choose a lane for each chunk."""

from dataclasses import dataclass
from typing import NamedTuple

from kamera.planner.catalog import Catalog
from kamera.planner.lanes import BEHIND, HELD, Choice, Lane, Situation
from kamera.planner.names import Front, formed_name
from kamera.planner.request import Request, RequestedChunk

__all__ = ["Choice", "Plan", "PlannedChunk", "plan"]


class PlannedChunk(NamedTuple):
    """One chunk with its choice."""

    request: RequestedChunk
    antecedents: tuple[str, ...]
    choice: Choice
    context: str
    """Names how what stands in front is made; empty when it is all exact."""

    @property
    def name(self) -> str:
        """The name of the chunk's KV: its digest when it is exact."""
        return self.choice.name


@dataclass(frozen=True)
class Plan:
    """What to do, chunk by chunk, in window order."""

    chunks: tuple[PlannedChunk, ...]

    @property
    def num_prefilled(self) -> int:
        """Tokens that forwards will run over, the tail apart."""
        return sum(planned.choice.num_prefilled for planned in self.chunks)

    def explain(self) -> str:
        """One line a chunk."""
        return "\n".join(
            f"{p.request.slot}: {p.choice.point.value} ({p.choice.reason})" for p in self.chunks
        )


def plan(request: Request, catalog: Catalog) -> Plan:
    """The cheapest lane that is valid for each chunk; prefill where none is.

    The catalog is asked twice, each time for the whole window: for what is held behind the chunks in front,
    then for what was formed in the contexts that this leaves.
    """
    situations, choices = _walk(request, catalog)
    contexts = {
        place: situation.context
        for place, situation in enumerate(situations)
        if choices[place] is None and situation.context and situation.record.canonical
    }
    if contexts:
        for place, patch in catalog.served(request.digests, contexts).items():
            situations[place].served = patch
    planned = []
    for situation, held in zip(situations, choices, strict=True):
        choice = held or _first(BEHIND, situation)
        if choice is None:
            raise AssertionError("the last lane always answers")
        planned.append(
            PlannedChunk(situation.chunk, situation.antecedents, choice, situation.context)
        )
    return Plan(tuple(planned))


def _walk(request: Request, catalog: Catalog) -> tuple[list[Situation], list[Choice | None]]:
    """From the front: how each chunk is served if it is held, and in which context it stands.

    Where nothing is held the context of what follows is known all the same: KV that is prefilled here and
    that of a patch which was formed here have one name.
    """
    situations: list[Situation] = []
    choices: list[Choice | None] = []
    front, digests = Front(), request.digests
    records = catalog.window(digests)
    for place, (chunk, record) in enumerate(zip(request.chunks, records, strict=True)):
        situation = Situation(request, chunk, digests[:place], record, front.context)
        choice = _first(HELD, situation)
        if choice is None:
            situation.formed = formed_name(chunk.chunk, front.context)
        front.add(chunk.chunk, situation.formed if choice is None else choice.name)
        situations.append(situation)
        choices.append(choice)
    return situations, choices


def _first(lanes: tuple[Lane, ...], situation: Situation) -> Choice | None:
    for lane in lanes:
        choice = lane(situation)
        if choice is not None:
            return choice
    return None
