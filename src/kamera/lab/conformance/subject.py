"""`Subject`: one model in one dtype with a window to look at, and what plain Transformers makes of it.

The window is prefix, A, B, tail. Forwards are kept, since several checks ask for the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kamera.channels import ChunkKV, concat
from kamera.lab.conformance.measure import kv_error
from kamera.lab.conformance.pieces import Piece, extent_of, ids_of, positions_of
from kamera.lab.conformance.plain import Reference, Run
from kamera.positions import PositionLayout
from kamera.rope import Rope
from kamera.shapes import Positions

FAR = 29_989
"""Where float32 angles are off by a thousandth of a radian."""


class Subject:
    """A model and its window.

    Attributes:
        engine: the product's engine over the model.
        backbone: its way to run the model.
        plain: the model's own forward in the same dtype.
        exact: the same with every number in float64: what rounding is measured against.
        counts: the plain model counts positions itself; else it is given ours.
        num_choices, num_flips: of experts, over the pairs of forwards that gave a bound.
    """

    def __init__(
        self, reference: Reference, window: Sequence[Piece], *, counts: bool = True
    ) -> None:
        self.engine, self.counts = reference.engine, counts
        self.backbone = reference.engine.backbone
        self.plain, self.exact = reference.plain, reference.exact
        self.prefix, self.a, self.b, self.tail = window
        self._runs: dict[Any, Run] = {}
        self.num_choices = self.num_flips = 0
        self._seen: dict[Piece, Tensor] = {}

    @property
    def rope(self) -> Rope:
        """The model's rotary scheme."""
        return self.backbone.rope

    @property
    def dtype(self) -> torch.dtype:
        """The model's dtype."""
        dtype: torch.dtype = self.backbone.model.dtype
        return dtype

    @property
    def media_ids(self) -> set[int]:
        """The tokens by which a forward looks for media: those that the config names, served or not."""
        named = self.backbone.config.to_dict().items()
        num_rows = self.backbone.text_config.vocab_size
        return {
            value
            for name, value in named
            if name.endswith(("_token_id", "_token_index"))
            and not name.startswith(("bos_", "eos_", "pad_"))
            and isinstance(value, int)
            and value < num_rows
        }

    @property
    def far(self) -> int:
        """An offset as far out as the scheme reaches with the whole window behind it."""
        reach = self.rope.max_positions
        room = extent_of([self.prefix, self.a, self.b, self.tail]) + 16
        return FAR if reach is None else min(FAR, reach - room)

    def spread(self, layout: PositionLayout, start: int) -> Positions:
        """Positions of a piece at `start`, with t, h and w apart: each axis has an offset of its own."""
        axes = torch.arange(layout.local.shape[1])
        shift = start - axes * (start // 5)
        return layout.local + shift

    def media(self, pieces: Sequence[Piece]) -> Tensor | None:
        """Embeddings of the pieces' media by the product's towers, each item seen once."""
        found = []
        for piece in pieces:
            if piece.inputs:
                if piece not in self._seen:
                    self._seen[piece] = self.backbone.see(piece.kind, piece.inputs)
                found.append(self._seen[piece])
        return torch.cat(found) if found else None

    def prefill(
        self,
        pieces: Sequence[Piece],
        positions: Positions,
        context: ChunkKV | None = None,
    ) -> tuple[ChunkKV, Tensor]:
        """The product's prefill: KV as cached, last logits."""
        return self.backbone.prefill(ids_of(pieces), positions, self.media(pieces), context)

    def form(self, pieces: Sequence[Piece], starts: Sequence[int]) -> list[ChunkKV]:
        """Canonical KV of each piece, prefilled one by one behind those before it, at these starts."""
        canonical: list[ChunkKV] = []
        for index, piece in enumerate(pieces):
            kv, _ = self.prefill(
                [piece],
                piece.layout.at(starts[index]),
                self.place(canonical, pieces[:index], starts) if index else None,
            )
            canonical.append(kv.to_canonical(piece.layout.at(starts[index]), self.rope))
        return canonical

    def place(
        self, canonical: Sequence[ChunkKV], pieces: Sequence[Piece], starts: Sequence[int]
    ) -> ChunkKV:
        """Canonical pieces, relocated and put one behind the other."""
        placed = [
            kv.at(piece.layout.at(start), self.rope)
            for kv, piece, start in zip(canonical, pieces, starts, strict=False)
        ]
        return concat(placed)

    def native(self, pieces: Sequence[Piece]) -> Run:
        """The plain forward over a window from its start, positions counted by the model."""
        return self.run(pieces, None if self.counts else positions_of(pieces))

    def pair(
        self,
        pieces: Sequence[Piece],
        positions: Positions | None = None,
        *,
        round_angles: bool = False,
    ) -> tuple[Run, Run]:
        """The plain forward in the dtype and in float64. Counts the tokens whose experts differ."""
        own = self.run(pieces, positions)
        exact = self.run(pieces, positions, exact=True, round_angles=round_angles)
        self.count_flips(own, exact)
        return own, exact

    def count_flips(self, own: Run, exact: Run) -> None:
        """Add the choices of experts, one a token and layer, in which two runs differ."""
        for a, b in zip(own.experts, exact.experts, strict=True):
            self.num_choices += len(a)
            self.num_flips += int((a != b).any(-1).sum())

    def run(
        self,
        pieces: Sequence[Piece],
        positions: Positions | None = None,
        *,
        exact: bool = False,
        round_angles: bool = False,
    ) -> Run:
        """A plain forward, kept."""
        where = None if positions is None else tuple(positions.flatten().tolist())
        key = (tuple(pieces), where, exact, round_angles)
        if key not in self._runs:
            plain = self.exact if exact else self.plain
            self._runs[key] = plain.run(pieces, positions, round_angles=round_angles)
        return self._runs[key]

    def rounding(
        self, pieces: Sequence[Piece], positions: Positions, *, round_angles: bool = False
    ) -> Tensor:
        """What the dtype costs plain Transformers in this KV: [channels, L], against float64."""
        own, exact = self.pair(pieces, positions, round_angles=round_angles)
        return kv_error(own.kv, exact.kv)


def starts_of(pieces: Sequence[Piece], start: int = 0) -> list[int]:
    """Where each of the pieces starts when they are laid one behind the other."""
    return [start + extent_of(pieces[:index]) for index in range(len(pieces))]
