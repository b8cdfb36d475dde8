"""`Piece`: one chunk of a window, and windows as lists of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs
from kamera.lab.conformance.vocabulary import encode
from kamera.positions import PositionLayout, text_layout
from kamera.shapes import Positions

TYPES = {"text": 0, "image": 1, "video": 2, "audio": 3}
"""What Transformers calls `mm_token_type_ids`."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A run of tokens with its layout; `inputs` are those of its media item, if it is one."""

    ids: tuple[int, ...]
    layout: PositionLayout
    kind: str = "text"
    placeholder: int | None = None
    inputs: Inputs = field(default_factory=dict)

    @property
    def types(self) -> list[int]:
        """0 for text, the kind's number for a placeholder."""
        return [TYPES[self.kind] if i == self.placeholder else 0 for i in self.ids]

    def more(self, token: int) -> Piece:
        """One more token of text behind it."""
        ids = (*self.ids, token)
        return replace(self, ids=ids, layout=text_layout(len(ids), self.layout.local.shape[1]))


def text_piece(text: str, num_axes: int) -> Piece:
    """Text."""
    ids = encode(text)
    return Piece(ids, text_layout(len(ids), num_axes))


def media_piece(family: Family, kind: str, config: Any, inputs: Inputs) -> Piece:
    """A media item with its wrapper tokens, expanded and laid out by its family's row.

    Raises:
        ValueError: the family takes no such media.
    """
    modality = family.modality(kind)
    if modality is None:
        raise ValueError(f"{family.model_type} takes no {kind}: its row lacks the modality")
    processor = SimpleNamespace(temporal_patch_size=2)  # all that a row may ask one for
    ids = encode(modality.expand(inputs, config, processor))
    layout = modality.layout(ids, inputs, config)
    return Piece(ids, layout, kind, modality.token_id(config), inputs)


def positions_of(pieces: Sequence[Piece], start: int = 0) -> Positions:
    """[T, P] of pieces laid one behind the other."""
    placed = []
    for piece in pieces:
        placed.append(piece.layout.at(start))
        start += piece.layout.extent
    return torch.cat(placed)


def extent_of(pieces: Sequence[Piece]) -> int:
    """How far the pieces move the position counter."""
    return sum(piece.layout.extent for piece in pieces)


def ids_of(pieces: Sequence[Piece]) -> list[int]:
    """Token ids of all pieces."""
    return [i for piece in pieces for i in piece.ids]


def joined_inputs(pieces: Sequence[Piece], dim: int = 0) -> dict[str, Tensor]:
    """The items' inputs by name, as a processor hands out several items of one kind."""
    parts: dict[str, list[Tensor]] = {}
    for piece in pieces:
        for name, value in piece.inputs.items():
            parts.setdefault(name, []).append(value)
    return {name: _joined(values, dim) for name, values in parts.items()}


def _joined(values: list[Tensor], dim: int) -> Tensor:
    """Clips of unequal length are padded at their end."""
    if values[0].ndim <= dim:
        return torch.cat(values)
    longest = max(value.shape[-1] for value in values)
    fitted = [torch.nn.functional.pad(v, (0, longest - v.shape[-1])) for v in values]
    return torch.cat(fitted, dim=dim)
