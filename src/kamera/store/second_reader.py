"""One thread that helps whoever reads a large entry. It sleeps between reads: starting one takes longer."""

import contextlib
import os
import threading
from collections.abc import Callable

__all__ = ["SecondReader", "second_reader"]

Work = Callable[[], None]


class SecondReader:
    """A thread of this process that does one piece of work at a time, begun when it is first needed.

    What is offered while it is busy isn't kept: whoever offers must be able to do all of it alone. An
    interrupt of whoever offers leaves it fit for the next: only the thread itself says that it is busy.
    """

    def __init__(self) -> None:
        self.forget_thread()

    def forget_thread(self) -> None:
        """Begin anew, as a process does that was forked from one that had the thread."""
        self._starting = threading.Lock()
        self._offered = threading.Lock()  # free when there is work
        self._offered.acquire()
        self._work: Work | None = None
        self._is_busy = False
        self._is_started = False

    def offer(self, work: Work) -> None:
        """Let it do `work`, which mustn't raise, if it has nothing else to do. Returns at once."""
        if self._is_busy or not (self._is_started or self._start()):
            return
        if self._work is None:
            self._work = work
        with contextlib.suppress(RuntimeError):  # it has been told already
            self._offered.release()

    def _start(self) -> bool:
        """Begin the thread. False where there can't be one more: its users go on alone."""
        with self._starting:
            if not self._is_started:
                thread = threading.Thread(target=self._serve, name="kamera-read", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return False
                self._is_started = True
        return True

    def _serve(self) -> None:
        while True:
            self._offered.acquire()
            self._is_busy = True
            work, self._work = self._work, None
            if work is not None:
                work()
            del work  # it holds an entry's memory
            self._is_busy = False


second_reader = SecondReader()
os.register_at_fork(after_in_child=second_reader.forget_thread)
