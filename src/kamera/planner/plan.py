"""plan(): walk the window from the front and choose a lane for each chunk."""

from dataclasses import dataclass
from typing import NamedTuple

from kamera.errors import ConfigError
from kamera.planner.catalog import Catalog
from kamera.planner.lanes import MENU, Choice, Situation
from kamera.planner.names import Front, served_name

__all__ = ["Choice", "Plan", "PlannedChunk", "Request", "RequestedChunk", "plan"]


class RequestedChunk(NamedTuple):
    """One chunk of the window that is wanted: where it sits, what it is, how many tokens it has."""

    slot: str
    chunk: str
    num_tokens: int


@dataclass(frozen=True)
class Request:
    """The chunks that are wanted, in window order.

    `pinned`: the first is the pinned prefix. `keep_survivors`: whether a chunk may keep what it absorbed
    of antecedents that left.
    """

    chunks: tuple[RequestedChunk, ...]
    pinned: bool = False
    keep_survivors: bool = True

    def __post_init__(self) -> None:
        slots = [chunk.slot for chunk in self.chunks]
        if len(set(slots)) < len(slots):
            raise ConfigError(f"Invalid request: expected each slot once, got {slots}")

    def antecedents(self, index: int) -> tuple[str, ...]:
        """The digests of the chunks before the one at `index`."""
        return tuple(chunk.chunk for chunk in self.chunks[:index])


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
        choice = self.choice
        return choice.name or (
            served_name(self.request.chunk, *choice.how) if choice.how else self.request.chunk
        )


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
    """The cheapest lane that is valid for each chunk; prefill where none is."""
    planned: list[PlannedChunk] = []
    front = Front()
    digests = tuple(chunk.chunk for chunk in request.chunks)
    for index, chunk in enumerate(request.chunks):
        antecedents, context = digests[:index], front.context
        situation = Situation(
            chunk.num_tokens,
            antecedents,
            catalog.of(chunk.chunk, antecedents, context),
            request.pinned,
            context,
            front.behind,
            request.keep_survivors,
        )
        made = PlannedChunk(chunk, antecedents, _choose(situation), context)
        planned.append(made)
        front.add(chunk.chunk, made.name)
    return Plan(tuple(planned))


def _choose(situation: Situation) -> Choice:
    for lane in MENU:
        choice = lane(situation)
        if choice is not None:
            return choice
    raise AssertionError("the last lane always answers")
