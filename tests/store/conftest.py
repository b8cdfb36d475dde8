"""Entries to store, and the stores that the contract suite runs over."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kamera.store import DiskStore, Entry, EntryKey, MemoryStore, Store, TieredStore

MODEL = "a" * 64

MakeEntry = Callable[..., Entry]
OpenStore = Callable[..., Store]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def make_entry() -> MakeEntry:
    """An entry named by a small number; `num_floats` float32 values beside nothing else."""

    def make(name: int = 0, num_floats: int = 4, **changes: Any) -> Entry:
        fields: dict[str, Any] = {
            "key": EntryKey("canonical", f"{name:064x}"),
            "model": MODEL,
            "tenant": "acme",
            "tensors": {"k": torch.arange(num_floats, dtype=torch.float32) + name},
            "attributes": {"name": name, "sections": [1, 2, [3]], "note": None},
        }
        return Entry(**(fields | changes))

    return make


@pytest.fixture(params=["memory", "disk", "tiered"])
def open_kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens a store of each kind; all are closed at the end."""
    opened: list[Store] = []

    def open_one(max_bytes: int = 1 << 20) -> Store:
        folder = tmp_path / f"store-{len(opened)}"
        store: Store
        if request.param == "memory":
            store = MemoryStore(max_bytes)
        elif request.param == "disk":
            store = DiskStore(folder, max_bytes)
        else:
            store = TieredStore(MemoryStore(max_bytes), DiskStore(folder, max_bytes))
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.check_integrity()
        store.close()
