"""`Quiet`: work that no request waits for stays out of the engine's steps, for a while."""

from __future__ import annotations

import threading
import time

PAUSE_S = 0.02
"""Between two steps of a busy engine there is less."""
LIMIT_S = 2.0
"""What is asked for later than that is prefilled once more, which costs more than a disturbed step."""


class Quiet:
    """Told of the engine's steps; lets a thread wait until there are none.

    Args:
        pause_s: without a step for so long, it is quiet.
        limit_s: nobody waits longer than this.
    """

    def __init__(self, pause_s: float = PAUSE_S, limit_s: float = LIMIT_S) -> None:
        self._pause_s, self._limit_s = pause_s, limit_s
        self._is_stepping = False
        self._last = -pause_s
        self._over = threading.Event()

    def begin_step(self) -> None:
        """A step begins."""
        self._is_stepping = True

    def end_step(self) -> None:
        """It is over."""
        self._last, self._is_stepping = time.monotonic(), False

    def wait(self, since: float) -> None:
        """Until it is quiet, until `limit_s` behind `since` (of the monotonic clock), or until `stop`."""
        end = since + self._limit_s
        while not self._over.is_set():
            now = time.monotonic()
            left = self._pause_s if self._is_stepping else self._last + self._pause_s - now
            if left <= 0 or now >= end:
                return
            self._over.wait(min(left, end - now))

    def stop(self) -> None:
        """Nobody waits any more, until `resume`."""
        self._over.set()

    def resume(self) -> None:
        """As at first."""
        self._over.clear()
