"""A chunk: a run of tokens cached as one unit, its wrapper tokens included."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from kamera.identity import ChunkKey
from kamera.positions import PositionLayout


@dataclass(frozen=True, eq=False)
class Pixels:
    """What the vision tower takes for one image: the processor's output.

    Attributes:
        values: flattened patches, as the processor made them.
        grid: (t, h, w) in patches.
        digest: the image's identity; the vision embeddings are cached under it.
    """

    values: Tensor
    grid: tuple[int, int, int]
    digest: str


@dataclass(frozen=True)
class Chunk:
    """A named run of tokens. Two chunks are equal when their keys are."""

    key: ChunkKey
    layout: PositionLayout = field(compare=False)
    pixels: Pixels | None = field(default=None, compare=False)

    @property
    def digest(self) -> str:
        """The chunk's name everywhere: in the window, the catalog and the store."""
        return self.key.digest

    @property
    def num_tokens(self) -> int:
        """Tokens, wrapper included."""
        return len(self.key.token_ids)

    @property
    def extent(self) -> int:
        """How far the chunk moves the position counter."""
        return self.layout.extent
