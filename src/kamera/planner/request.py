"""A request: the chunks that a window should hold, in order."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kamera.errors import ConfigError

__all__ = ["Request", "RequestedChunk"]


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

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """What the chunks are, in window order."""
        return tuple(chunk.chunk for chunk in self.chunks)
