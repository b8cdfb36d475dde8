"""Four small text chunks of one model, and entries under their names: for what asks the index alone."""

import torch

from kamera.chunk import Chunk
from kamera.identity import ChunkKey, ModelKey, Shard
from kamera.library import Library
from kamera.positions import text_layout
from kamera.store import Entry, EntryKey

MODEL = ModelKey(
    "test",
    "qwen2",
    "1" * 64,
    "bfloat16",
    None,
    {},
    {"kind": "gqa", "num_layers": 2, "num_kv_heads": 1, "head_dim": 2},
    Shard(0, 1, 0, 2, 0, 1),
    None,
    "test",
)
CHUNKS = tuple(
    Chunk(ChunkKey(MODEL, None, "text", (number, 2)), text_layout(2, 1)) for number in range(4)
)


def put(library: Library, kind: str, name: str) -> None:
    """List an entry of this kind under this name."""
    key = EntryKey(kind, name)
    assert library.store.put(Entry(key, MODEL.digest, None, {"k": torch.zeros(1, 2)}, {}))
