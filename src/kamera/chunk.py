"""A chunk: a run of tokens cached as one unit, its wrapper tokens included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from kamera.identity import ChunkKey
from kamera.positions import PositionLayout


@dataclass(frozen=True, eq=False)
class Media:
    """What a tower takes for one image, video or audio clip: the processor's outputs.

    Attributes:
        inputs: the processor's outputs by their own names, e.g. `pixel_values`, `image_grid_thw`.
        digest: the item's identity; its embeddings are cached under it.
    """

    inputs: Mapping[str, Tensor]
    digest: str


@dataclass(frozen=True)
class Chunk:
    """A named run of tokens. Two chunks are equal when their keys are."""

    key: ChunkKey
    layout: PositionLayout = field(compare=False)
    media: Media | None = field(default=None, compare=False)

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
