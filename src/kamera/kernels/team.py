"""The threads that the compiled kernel runs on: the OpenMP team that torch has up already.

Threads of our own would find that team spinning on their cores, and wake late (docs/lab-log.md).
"""

from __future__ import annotations

import ctypes
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import torch

logger = logging.getLogger(__name__)
_HOME = os.getpid()


def fork_address() -> int:
    """Address of `GOMP_parallel` in the OpenMP runtime that torch uses; 0 where it can't be called.

    That is where torch uses another runtime, and in a forked process: the parent's team isn't there.
    """
    return _found() if os.getpid() == _HOME else 0


@lru_cache(maxsize=1)
def workers(process: int) -> ThreadPoolExecutor:
    """Threads of our own, of this process: a fork has none of its parent's."""
    return ThreadPoolExecutor(os.cpu_count() or 1, "kamera-apply")


@lru_cache(maxsize=1)
def _found() -> int:
    for name in (None, *_libraries()):  # what is preloaded comes first for torch, too
        try:
            address = ctypes.cast(ctypes.CDLL(name).GOMP_parallel, ctypes.c_void_p).value
        except (OSError, AttributeError, TypeError):
            continue
        if address:
            return address
    logger.info("torch's OpenMP runtime has no GOMP_parallel: KV is placed by threads of our own")
    return 0


def _libraries() -> list[str]:
    """torch's own: a symbol is looked up in what they are linked against."""
    folder = Path(torch.__file__).parent / "lib"
    return [str(path) for path in sorted(folder.glob("libtorch_cpu.*"))]
