"""Modality: how a family takes one kind of media. Tokens, positions and tower, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from kamera.positions import PositionLayout, text_layout

Inputs = Mapping[str, Tensor]
"""A processor's outputs for one media item, by their own names."""


@dataclass(frozen=True)
class Modality:
    """One kind of media in one family. The base class serves models with one position axis.

    Attributes:
        kind: `image`, `video` or `audio`; names the model's `get_*_features` and `*_token_id`.
        marker: what the chat template writes for one item; special tokens alone.
        token: the placeholder that one embedding each replaces.
        inputs: the processor's outputs that the tower takes, by name. What else an item holds
            (a video's seconds) is for its tokens and positions.
        options: extra arguments of the processor's call.
        around: text that the family's processor writes before and after the marker.
        extras: further outputs of the processor, which the item's tokens need and the tower doesn't.
    """

    kind: str
    marker: str
    token: str
    inputs: tuple[str, ...] = ("pixel_values",)
    options: Mapping[str, Any] = field(default_factory=dict)
    around: tuple[str, str] = ("", "")
    extras: tuple[str, ...] = ()

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        """Tokens that one item's embeddings replace, without running the tower."""
        raise NotImplementedError

    def expand(self, inputs: Inputs, config: Any, processor: Any) -> str:
        """The marker as the model reads it: the placeholder repeated, wrappers as they are."""
        count = self.num_placeholders(inputs, config, processor)
        return self.marker.replace(self.token, self.token * count)

    def layout(self, token_ids: tuple[int, ...], inputs: Inputs, config: Any) -> PositionLayout:
        """Where the item's tokens stand, from the chunk's own start."""
        return text_layout(len(token_ids), 1)

    def embed(self, model: Any, inputs: Inputs) -> Tensor:
        """Run the tower over one item: [placeholders, hidden · (1 + deepstack levels)].

        Deepstack features stand beside the embeddings, level after level, so that they travel with them.
        """
        taken = {name: inputs[name] for name in self.inputs}
        out = getattr(model.model, f"get_{self.kind}_features")(**taken)
        levels = [_rows(out.pooler_output)]
        levels += [_rows(level) for level in getattr(out, "deepstack_features", None) or ()]
        return torch.cat(levels, dim=-1)

    def token_id(self, config: Any) -> int:
        """The placeholder's id in the model's config."""
        return int(getattr(config, f"{self.kind}_token_id"))


def _rows(features: Tensor | list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    """One item's features, however the family hands them out, as [placeholders, hidden]."""
    parts = [features] if isinstance(features, Tensor) else list(features)
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])
