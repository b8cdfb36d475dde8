"""Compiled code that Numba keeps on disk, and what becomes of it when that goes wrong."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

from numba import config, njit

logger = logging.getLogger("kamera.kernels")

if config.DISABLE_JIT:
    raise ImportError("Numba doesn't compile: NUMBA_DISABLE_JIT is set")


def kept(function: Any) -> Any:
    """Numba's dispatcher of a function, kept on disk where there is a folder that can be written.

    Files that a crash cut short, or a full disk, cost a compilation and no error.
    """
    try:
        dispatcher = njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder: each process compiles for itself
        return njit(nogil=True)(function)
    _forgive(dispatcher._cache)
    return dispatcher


def _forgive(cache: Any) -> None:
    """Have Numba's cache miss where it would raise: it neither syncs its files nor checks them."""
    load, save = cache.load_overload, cache.save_overload

    def loaded(signature: Any, context: Any) -> Any:
        try:
            return load(signature, context)
        except Exception as error:
            logger.warning("Kept code in %s can't be read: %r; compiling", cache.cache_path, error)
            with contextlib.suppress(OSError):
                cache.flush()
            return None

    def saved(signature: Any, data: Any) -> None:
        try:
            save(signature, data)
        except Exception as error:
            logger.warning("Compiled code isn't kept in %s: %r", cache.cache_path, error)

    cache.load_overload, cache.save_overload = loaded, saved
