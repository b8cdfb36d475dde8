"""The threads that the compiled kernel runs on: the OpenMP team that torch has up already.

Threads of our own would find that team spinning on their cores, and wake late (docs/lab-log.md).
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue

import torch

logger = logging.getLogger(__name__)
_HOME = os.getpid()
_NAP_S = 50e-6
"""Between two looks at whether the others are done: a nap that lets them have the interpreter."""


def parallel_address() -> int:
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
        queue = _workers(os.getpid())
        for _ in range(num_threads - 1):
            queue.put(one.join)
        share()
    finally:
        one.end()


class _Round:
    """One piece of work that threads join until it is over.

    Without a lock: an interrupt of a thread that waits for one of Python's conditions can leave it locked.
    """

    def __init__(self, share: Callable[[], None]) -> None:
        self._share = share
        self._inside: list[None] = []
        self._is_over = False
        self._error: BaseException | None = None

    def join(self) -> None:
        """Call `share`, unless it is over."""
        self._inside.append(None)  # before the look: who ends it sees either this or nobody
        try:
            if not self._is_over:
                self._share()
        except BaseException as error:
            self._error = error
        finally:
            self._inside.pop()

    def end(self) -> None:
        """Let no thread in any more, and wait for those inside, through interrupts, too.

        They read and write what the caller then lets go of.
        """
        raised: BaseException | None = None
        while True:
            try:
                self._is_over = True
                while self._inside:
                    time.sleep(_NAP_S)
                break
            except BaseException as error:
                raised = error
        raised = raised or self._error
        if raised is not None:
            raise raised


@lru_cache(maxsize=1)
def _workers(process: int) -> SimpleQueue[Callable[[], None]]:
    """What the threads of this process take their work from: a fork has none of its parent's."""
    queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
    with suppress(RuntimeError):  # it has as many threads as it may, or ends
        for _ in range(os.cpu_count() or 1):
            threading.Thread(target=_work, args=(queue,), name="kamera-apply", daemon=True).start()
    return queue


def _work(queue: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        queue.get()()


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
