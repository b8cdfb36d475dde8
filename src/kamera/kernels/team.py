"""The threads that the compiled kernel runs on: the OpenMP team that torch has up already.

Threads of our own would find that team spinning on their cores, and wake late (docs/lab-log.md).
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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


def in_pool(share: Callable[[], None], num_threads: int) -> None:
    """Have this thread and some of our own call `share` at once; those that come late don't.

    `share` does what is left to do and returns when nothing is.
    """
    one = _Round(share)
    try:
        # The process ends, or has as many threads as it may: alone, then.
        with suppress(RuntimeError):
            for _ in range(num_threads - 1):
                _workers(os.getpid()).submit(one.join)
        share()
    finally:
        one.end()


class _Round:
    """One piece of work that threads join until it is over."""

    def __init__(self, share: Callable[[], None]) -> None:
        self._share = share
        self._changed = threading.Condition()
        self._num_inside, self._is_over = 0, False
        self._error: BaseException | None = None

    def join(self) -> None:
        with self._changed:
            if self._is_over:
                return
            self._num_inside += 1
        try:
            self._share()
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._num_inside -= 1
                self._changed.notify()

    def end(self) -> None:
        """Let no thread in any more, and wait for those inside, through interrupts, too.

        They read and write what the caller then lets go of.
        """
        raised: BaseException | None = None
        while True:
            try:
                with self._changed:
                    self._is_over = True
                    self._changed.wait_for(lambda: not self._num_inside)
                break
            except KeyboardInterrupt as error:
                raised = error
        raised = raised or self._error
        if raised is not None:
            raise raised


@lru_cache(maxsize=1)
def _workers(process: int) -> ThreadPoolExecutor:
    """Of this process: a fork has none of its parent's."""
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
