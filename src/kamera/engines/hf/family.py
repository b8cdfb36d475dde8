"""Family: all that the engine must know of a model type beyond what its config and modules tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from kamera.engines.hf.modality import Modality


@dataclass(frozen=True)
class Family:
    """One row of the table. See `kamera.engines.hf.families`.

    Attributes:
        model_type: of the config.
        model_class: of Transformers, loaded by name.
        modalities: the media that it takes; none for a text model.
        rope_layout: which channels RoPE pairs, where the rotary module can't tell it.
        sees_ahead: a media item's tokens attend to one another both ways.
    """

    model_type: str
    model_class: str
    modalities: tuple[Modality, ...] = ()
    rope_layout: Literal["half", "pairs"] | None = None
    sees_ahead: bool = False

    def modality(self, kind: str) -> Modality | None:
        """The modality of this kind, if the family has it."""
        return next((m for m in self.modalities if m.kind == kind), None)

    def forward_arguments(self, is_media: Tensor, num_past: int) -> dict[str, Any]:
        """What the model's forward takes besides embeddings, positions and cache.

        Args:
            is_media: [1, T], the new tokens that stand for media.
            num_past: tokens in the cache before them.
        """
        return {}
