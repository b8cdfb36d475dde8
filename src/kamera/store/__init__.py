"""The store: a chunk's tensors under a key that names all that decides them.

    contract     what every store promises; typed hits, misses and put results
    entry        EntryKey, Entry
    memory       MemoryStore: this process, byte cap, least recently used first out
    disk         DiskStore: one folder of safetensors files and an index that can be rebuilt
    ahead        ReadAhead: gets in a known order, read before they are asked for
    tiered       TieredStore: memory over disk
    file_format  an entry as bytes
    directory, index, owner, rebuild, uses   the parts of the disk store
    reading, pieces, second_reader           how one of its files is read

Files are data: safetensors and JSON. Nothing here can run code from a file.
"""

from pathlib import Path

from kamera.store.ahead import AHEAD_BYTES, ReadAhead
from kamera.store.contract import (
    Hit,
    Miss,
    MissReason,
    Peek,
    Problem,
    PutReason,
    PutResult,
    Store,
    StoreStats,
    VerifyReport,
)
from kamera.store.disk import DiskStore
from kamera.store.entry import ENTRY_KINDS, Entry, EntryKey
from kamera.store.memory import MemoryStore
from kamera.store.tiered import TieredStore

__all__ = [
    "AHEAD_BYTES",
    "ENTRY_KINDS",
    "DiskStore",
    "Entry",
    "EntryKey",
    "Hit",
    "MemoryStore",
    "Miss",
    "MissReason",
    "Peek",
    "Problem",
    "PutReason",
    "PutResult",
    "ReadAhead",
    "Store",
    "StoreStats",
    "TieredStore",
    "VerifyReport",
    "open_store",
]


def open_store(
    path: str | Path | None = None,
    max_memory_bytes: int = 4 << 30,
    max_disk_bytes: int = 64 << 30,
) -> Store:
    """The default store: memory over the folder `path`, or memory alone for None. Close it."""
    memory = MemoryStore(max_memory_bytes)
    if path is None:
        return memory
    return TieredStore(memory, DiskStore(path, max_disk_bytes))
