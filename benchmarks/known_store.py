"""A window of chunks, and a disk store that knows a million others: what bench_plan and bench_scale share.

The others' files are empty and their names made up: neither a plan nor opening a store reads a file, and both
meet as many names in the folders and rows in the index as if they were real.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.identity import ChunkKey, ModelKey, Shard
from kamera.library import Library
from kamera.planner import OperatingPoint, PatchRecord, Plan, Request, RequestedChunk, plan
from kamera.positions import text_layout
from kamera.session.holdings import Holdings
from kamera.session.resident import Patched, Resident
from kamera.store import DiskStore, Entry, EntryKey, Store

CAP = 1 << 50
RANK = 16
TOKENS = 3
LINKS = 50_000
"""Names of one file; ext4 allows 65,000."""

MODEL = ModelKey(
    "benchmark",
    "qwen2_5_vl",
    "1" * 64,
    "bfloat16",
    None,
    {"theta": 1e6},
    {"kind": "gqa", "num_layers": 8, "num_kv_heads": 2, "head_dim": 32},
    Shard(0, 1, 0, 8, 0, 2),
    None,
    "benchmark",
)


def chunks_of(count: int, first: int = 1) -> list[Chunk]:
    """Chunks that differ in one token, which is `first` and those after it."""
    layout = text_layout(TOKENS, 1)
    return [Chunk(ChunkKey(MODEL, None, "text", (first + i, 2, 3)), layout) for i in range(count)]


def request_of(chunks: Sequence[Chunk]) -> Request:
    """All of them, in this order, behind the first as the pinned prefix."""
    return Request(
        tuple(RequestedChunk(str(i), c.digest, c.num_tokens) for i, c in enumerate(chunks)),
        pinned=True,
    )


def library_of(store: Store) -> Library:
    """A library that has named nothing yet."""
    return Library(store, MODEL.digest, None, RANK)


def planned(
    chunks: Sequence[Chunk], library: Library, residents: dict[str, Resident] | None = None
) -> Plan:
    """What a session plans for this window, asked of its library and of what it holds."""
    held = residents or {}
    slots = {str(i): chunk.digest for i, chunk in enumerate(chunks)}
    return plan(request_of(chunks), Holdings(library, held, slots, ()))


def keep_canonicals(chunks: Sequence[Chunk], library: Library) -> None:
    """Small entries under the canonicals' names."""
    for chunk in chunks:
        _put(library, library._canonical_key(chunk))


def keep_exact(chunks: Sequence[Chunk], library: Library) -> None:
    """A patch for each chunk but the first, formed on exactly those in front."""
    for index in range(1, len(chunks)):
        before = [chunk.digest for chunk in chunks[:index]]
        keep_patch(library, library.record(chunks[index], "exact", before))


def keep_served(chunks: Sequence[Chunk], library: Library) -> None:
    """An exact patch for the second chunk, and for each one after it a patch formed behind approximate KV."""
    keep_exact(chunks[:2], library)
    for index in range(2, len(chunks)):
        found = planned(chunks, library).chunks[index]
        before, context = found.antecedents, found.context
        keep_patch(library, library.record(chunks[index], "served", before, context))


def residents_of(chunks: Sequence[Chunk]) -> dict[str, Resident]:
    """The window as a session holds it when nothing has changed."""
    nothing = Patched(ChunkKV({name: torch.zeros(1, TOKENS, 1, 2) for name in ("k", "v")}), None)
    return {
        str(i): Resident(
            nothing, tuple(c.digest for c in chunks[:i]), OperatingPoint.LEADING, chunk.digest
        )
        for i, chunk in enumerate(chunks)
    }


def keep_patch(library: Library, record: PatchRecord) -> None:
    """A small entry under the patch's name."""
    _put(library, library._patch_key(record))


def _put(library: Library, key: EntryKey) -> None:
    entry = Entry(key, MODEL.digest, None, {"k": torch.zeros(1, TOKENS)}, {})
    assert library.store.put(entry)


@contextmanager
def known_store() -> Iterator[KnownStore]:
    """A new one; in memory where there is a place for it: removing a million names takes minutes else."""
    shared = Path("/dev/shm")
    place = shared if os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="kamera-bench-", dir=place) as folder:
        yield KnownStore(Path(folder) / "store")


class KnownStore:
    """A folder that grows: `grow(count)` makes it know `count` chunks; `open` opens it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        DiskStore(folder, CAP).close()
        for index in range(256):
            (folder / "entries" / f"{index:02x}").mkdir(mode=0o700, exist_ok=True)

    def open(self) -> DiskStore:
        """The folder as a store."""
        return DiskStore(self.folder, CAP)

    def grow(self, count: int) -> None:
        """More made-up names, in the folders and in the index."""
        numbers = range(self.count, count)
        names = sorted(hashlib.sha256(b"known %d" % i).hexdigest() for i in numbers)
        for first in range(0, len(names), LINKS):
            self._link(names[first : first + LINKS])
        rows = [
            ("canonical", name, MODEL.digest, 0, self.count + i) for i, name in enumerate(names)
        ]
        with self.open() as store:
            assert store._index is not None
            with store._index.transaction():
                store._index._db.executemany(
                    "INSERT INTO entries VALUES (?, ?, ?, NULL, ?, ?)", rows
                )
        self.count = count

    def _link(self, names: Sequence[str]) -> None:
        """One empty file under many names: a folder's look-ups meet names, not files."""
        empty = self.folder / "incoming" / f"empty-{names[0]}"
        empty.touch(mode=0o600)
        for name in names:
            os.link(empty, f"{self.folder}/entries/{name[:2]}/canonical-{name}.safetensors")
        empty.unlink()
