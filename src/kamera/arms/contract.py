"""The contract of an arm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from kamera.chunk import Chunk


@dataclass(frozen=True)
class ArmRequest:
    """A window and a question: the pinned prefix, the chunks in order, and the tail."""

    prefix: Chunk | None
    chunks: tuple[Chunk, ...]
    tail: Chunk

    @property
    def cached(self) -> tuple[Chunk, ...]:
        """All that stands before the tail."""
        return self.chunks if self.prefix is None else (self.prefix, *self.chunks)

    @property
    def tail_start(self) -> int:
        """The tail's first position."""
        return sum(chunk.extent for chunk in self.cached)


@dataclass(frozen=True, eq=False)
class Served:
    """What an arm did for one request.

    Attributes:
        logits: the last token's.
        num_prefilled: tokens of the window that a forward ran over on the request's path; the tail,
            which every arm prefills, isn't counted.
        num_vision_runs: images that the vision tower ran over.
        ttft_s: from the request to these logits.
        num_formed: tokens that were run over off the path, for later requests.
        lanes: how each chunk was served, where the arm has more than one way.
    """

    logits: Float[Tensor, " vocab"]
    num_prefilled: int
    num_vision_runs: int
    ttft_s: float
    num_formed: int = 0
    lanes: tuple[str, ...] = ()


class Arm(ABC):
    """A way to fill the window. It may remember earlier requests until `reset`."""

    name: str

    def reset(self) -> None:  # noqa: B027  (an arm without memory has nothing to forget)
        """Forget all earlier requests."""

    def prepare(self, request: ArmRequest) -> None:  # noqa: B027
        """What the arm does ahead of a request, off its path (compile a chunk, form a patch)."""

    @abstractmethod
    def serve(self, request: ArmRequest) -> Served:
        """Fill the window and prefill the tail."""
