"""The contract of an arm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
        num_bytes: what is kept for this window alone, KV or factors, on top of the position-free
            canonicals that all windows share. Arms are compared at equal bytes: their numbers are as wide as
            the KV's, but for `kamera`, which keeps what its session's `patch` says.
        num_token_layers: tokens run on the path, counted once for each layer that they had to go through;
            of T tokens and L layers, re-prefill runs T · L. What the method needs, not what our
            emulation of it spends.
    """

    logits: Float[Tensor, " vocab"]
    num_prefilled: int
    num_vision_runs: int
    ttft_s: float
    num_formed: int = 0
    lanes: tuple[str, ...] = ()
    num_bytes: int = 0
    num_token_layers: int = 0


class Arm(ABC):
    """A way to fill the window. It may remember earlier requests until `reset`."""

    name: str

    def reset(self) -> None:  # noqa: B027  (an arm without memory has nothing to forget)
        """Forget all earlier requests."""

    def learn(self, requests: Sequence[ArmRequest]) -> None:  # noqa: B027
        """What the arm learns once for the model, from windows that aren't the tested ones."""

    def prepare(self, request: ArmRequest) -> None:  # noqa: B027
        """What the arm does ahead of a request, off its path (compile a chunk, form a patch)."""

    @abstractmethod
    def serve(self, request: ArmRequest) -> Served:
        """Fill the window and prefill the tail."""
