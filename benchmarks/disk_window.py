"""A window of Qwen2.5-VL-3B's shapes on disk, read and composed: what bench_store and bench_scale share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.identity import ChunkKey
from kamera.library import Library
from kamera.patch import Factors, Patch
from kamera.planner import PatchRecord
from kamera.positions import text_layout
from kamera.rope import RopeSpec
from kamera.session.resident import Patched
from kamera.store import DiskStore, Miss
from known_store import CAP, MODEL

NUM_LAYERS, NUM_HEADS, HEAD_DIM = 36, 2, 128
RANK = 16

_FREQUENCIES = (1e6 ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)).float().tolist()
SPEC = RopeSpec(tuple(_FREQUENCIES), (0,) * (HEAD_DIM // 2), 1, HEAD_DIM)


@dataclass(frozen=True, eq=False)
class DiskWindow:
    """Chunks in a library, each behind those in front of it; and memory of the composed window's size."""

    library: Library
    chunks: tuple[Chunk, ...]
    out: dict[str, Tensor]

    @classmethod
    def make(
        cls, folder: Path, num_chunks: int, num_tokens: int, *, num_layers: int = NUM_LAYERS
    ) -> DiskWindow:
        """All chunks share random numbers; each has files of its own."""
        library = Library(DiskStore(folder, CAP), MODEL.digest, None, RANK)
        layout = text_layout(num_tokens, 1)
        chunks = tuple(
            Chunk(ChunkKey(MODEL, None, "text", (i, *range(num_tokens - 1))), layout)
            for i in range(num_chunks)
        )
        shape = (num_layers, num_tokens, NUM_HEADS, HEAD_DIM)
        kv = ChunkKV({n: torch.randn(shape).bfloat16() for n in ("k", "v")})
        factors = Factors(
            torch.randn(num_layers, num_tokens, RANK).bfloat16(),
            torch.randn(num_layers, RANK, NUM_HEADS * HEAD_DIM).bfloat16(),
        )
        patch = Patch({"k": factors, "v": factors}, "antecedent")
        window = (num_layers, num_chunks * num_tokens, NUM_HEADS, HEAD_DIM)
        out = {n: torch.zeros(window, dtype=torch.bfloat16) for n in ("k", "v")}
        made = cls(library, chunks, out)
        for chunk, record in made.wanted():
            library.keep_canonical(chunk, kv)
            if record is not None:
                library.keep_patch(chunk, record.antecedents, patch)
        return made

    @property
    def num_bytes(self) -> int:
        """Of the composed window."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.out.values())

    def wanted(self) -> list[tuple[Chunk, PatchRecord | None]]:
        """Each chunk with its patch; the first leads and has none."""
        digests = tuple(chunk.digest for chunk in self.chunks)
        return [
            (chunk, self.library.record(chunk, "exact", digests[:i]) if i else None)
            for i, chunk in enumerate(self.chunks)
        ]

    def read(self, library: Library | None = None) -> list[Patched]:
        """All of it, as it is stored."""
        return [self._source(library or self.library, *want) for want in self.wanted()]

    def compose(self, sources: Sequence[Patched]) -> None:
        """Relocated, patched and written where it belongs."""
        for index, source in enumerate(sources):
            self._write(index, source)

    def read_and_compose(self) -> None:
        """A chunk is read, then composed, then the next."""
        for index, want in enumerate(self.wanted()):
            self._write(index, self._source(self.library, *want))

    def read_and_compose_last(self) -> None:
        """The last chunk alone."""
        index = len(self.chunks) - 1
        self._write(index, self._source(self.library, *self.wanted()[index]))

    def compose_while_reading(self) -> None:
        """The same, with the next ones read meanwhile."""
        with self.library.reading_ahead(self.wanted()) as library:
            for index, want in enumerate(self.wanted()):
                self._write(index, self._source(library, *want))

    def forget(self) -> None:
        """Ask the system to drop the files from its page cache."""
        assert isinstance(self.library.store, DiskStore)
        for path in (self.library.store._directory.entries).glob("*/*"):
            forget(path)

    def _source(self, library: Library, chunk: Chunk, record: PatchRecord | None) -> Patched:
        canonical = library.canonical(chunk)
        patch = None if record is None else library.patch(chunk, record)
        assert not isinstance(canonical, Miss)
        assert not isinstance(patch, Miss)
        return Patched(canonical, patch)

    def _write(self, index: int, source: Patched) -> None:
        chunk = self.chunks[index]
        first = index * chunk.num_tokens
        place = {n: t[:, first : first + chunk.num_tokens] for n, t in self.out.items()}
        source.write(chunk.layout.at(first), SPEC, place)


def forget(path: Path | str) -> None:
    """Ask the system to drop one file from its page cache; it has been synced."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
