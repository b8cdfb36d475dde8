"""Forwards that several arms need of the same window, each run once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from kamera.arms.contract import ArmRequest
from kamera.channels import ChunkKV, concat
from kamera.chunk import Chunk
from kamera.engines.contract import Engine, OpenEngine, Prefilled
from kamera.errors import ConfigError
from kamera.identity import AntecedentKey
from kamera.patch import Deficits, Patch, deficit, form_patch


@dataclass
class Workbench:
    """Memory of one comparison; `clear` it between items."""

    engine: Engine
    _vision: dict[str, Tensor] = field(default_factory=dict)
    _canonical: dict[str, ChunkKV] = field(default_factory=dict)
    _full: dict[tuple[str, ...], Prefilled] = field(default_factory=dict)
    _patches: dict[tuple[str, ...], Patch] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget everything."""
        self._vision.clear()
        self._canonical.clear()
        self._full.clear()
        self._patches.clear()

    @property
    def open(self) -> OpenEngine:
        """The engine, for arms that work inside a window.

        Raises:
            ConfigError: it can't recompute tokens in context.
        """
        if not isinstance(self.engine, OpenEngine):
            raise ConfigError(
                f"{type(self.engine).__name__} can't recompute tokens in context: expected an engine with "
                "`recompute`, such as HFEngine"
            )
        return self.engine

    def vision(self, chunks: Sequence[Chunk]) -> dict[str, Tensor]:
        """Embeddings of the image chunks."""
        for chunk in chunks:
            if chunk.media is not None and chunk.media.digest not in self._vision:
                self._vision[chunk.media.digest] = self.engine.see(chunk)
        return {c.media.digest: self._vision[c.media.digest] for c in chunks if c.media}

    def canonical(self, chunk: Chunk) -> ChunkKV:
        """KV(B given nothing), un-rotated."""
        if chunk.digest not in self._canonical:
            solo = self.engine.prefill([chunk], self.vision([chunk]), start=0).kv
            kv = solo.to_canonical(chunk.layout.at(0), self.engine.spec)
            self._canonical[chunk.digest] = kv
        return self._canonical[chunk.digest]

    def blind(self, chunks: Sequence[Chunk]) -> ChunkKV:
        """Every chunk's canonical relocated to its place in the window, nothing given back."""
        placed, start = [], 0
        for chunk in chunks:
            placed.append(self.canonical(chunk).at(chunk.layout.at(start), self.engine.spec))
            start += chunk.extent
        return concat(placed)

    def full(self, chunks: Sequence[Chunk]) -> Prefilled:
        """One forward over all chunks from position 0."""
        key = tuple(chunk.digest for chunk in chunks)
        if key not in self._full:
            self._full[key] = self.engine.prefill(chunks, self.vision(chunks), start=0)
        return self._full[key]

    def conditioned(self, chunks: Sequence[Chunk], index: int) -> ChunkKV:
        """KV(chunk `index` given those before it), placed as in the full forward."""
        token = sum(chunk.num_tokens for chunk in chunks[:index])
        return self.full(chunks).kv.slice_tokens(token, token + chunks[index].num_tokens)

    def delta(self, chunks: Sequence[Chunk], index: int) -> Deficits:
        """Δ of chunk `index` behind those before it, un-rotated frame, float32."""
        chunk = chunks[index]
        start = sum(c.extent for c in chunks[:index])
        placed = self.conditioned(chunks, index)
        wide = placed.to_canonical(chunk.layout.at(start), self.engine.spec, torch.float32)
        return deficit(wide, self.canonical(chunk))

    def patch(self, chunks: Sequence[Chunk], index: int) -> Patch:
        """The full-rank patch of chunk `index` behind those before it; lower ranks are its truncations.

        Its factors are of the KV's dtype: `SameBytes` counts numbers, and both sides' must be of one size.
        """
        digests = tuple(chunk.digest for chunk in chunks[: index + 1])
        if digests not in self._patches:
            key = AntecedentKey(digests[:-1]).digest
            dtype = self.canonical(chunks[index]).dtype
            self._patches[digests] = form_patch(self.delta(chunks, index), key, dtype=dtype)
        return self._patches[digests]

    def finish(self, request: ArmRequest, context: ChunkKV) -> Prefilled:
        """Prefill the tail behind a composed window."""
        return self.engine.prefill([request.tail], {}, start=request.tail_start, context=context)
