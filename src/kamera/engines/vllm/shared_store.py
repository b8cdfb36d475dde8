"""One store a process: the two halves of an engine of one process share it."""

from __future__ import annotations

import threading

from kamera.engines.vllm.settings import ConnectorSettings
from kamera.store import Store, open_store

_lock = threading.Lock()
_stores: dict[str | None, Store] = {}


def shared_store(settings: ConnectorSettings) -> Store:
    """The store of these settings' folder, opened once. It stays open as long as the process lives."""
    with _lock:
        if settings.store not in _stores:
            _stores[settings.store] = open_store(
                settings.store, settings.memory_bytes, settings.disk_bytes
            )
        return _stores[settings.store]


def close_stores() -> None:
    """Close all: for tests that open engine after engine in one process."""
    with _lock:
        for store in _stores.values():
            store.close()
        _stores.clear()
