"""Reading a file piece by piece into memory, each piece looked at while it is still in the cache."""

import threading
from collections.abc import Callable

__all__ = ["PIECE_BYTES", "SPLIT_BYTES", "ReadAt", "ShortFileError", "fill", "read_pieces"]

PIECE_BYTES = 1 << 20
SPLIT_BYTES = 2 << 20
"""From this size on a second thread reads every other piece. Starting one takes as long as half a piece."""

ReadAt = Callable[[memoryview, int], int]
"""Fills a part of the memory from the given byte of the file on; how many bytes it was, 0 at the end."""


class ShortFileError(Exception):
    """The file ended before the memory was full."""


def fill(read_at: ReadAt, view: memoryview, offset: int) -> None:
    """The file's bytes from `offset` on, until `view` is full. Raises `ShortFileError`."""
    done = 0
    while done < len(view):
        count = read_at(view[done:], offset + done)
        if not count:
            raise ShortFileError("the file ended while it was read")
        done += count


def read_pieces(
    read_at: ReadAt, view: memoryview, offset: int, look: Callable[[memoryview], object]
) -> None:
    """`fill`, and `look` at every piece, in order. `read_at` must be fit for two threads."""
    pieces = [
        (view[start : start + PIECE_BYTES], offset + start)
        for start in range(0, len(view), PIECE_BYTES)
    ]
    helper = _Helper(read_at, pieces[1::2]) if len(view) >= SPLIT_BYTES else None
    try:
        for number, (piece, start) in enumerate(pieces):
            if helper is not None and number % 2:
                helper.wait()
            else:
                fill(read_at, piece, start)
            look(piece)
    finally:
        if helper is not None:
            helper.end()


class _Helper:
    """A thread that fills pieces, in order. `wait` returns when one more is full, or raises its error."""

    def __init__(self, read_at: ReadAt, pieces: list[tuple[memoryview, int]]) -> None:
        self._read_at, self._pieces = read_at, pieces
        self._filled = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="kamera-read", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._filled.acquire()
        if self._error is not None:
            raise self._error

    def end(self) -> None:
        """Whatever it reads is done with: the memory and the file may go."""
        self._stopped = True
        self._thread.join()

    def _run(self) -> None:
        try:
            for piece, start in self._pieces:
                if self._stopped:
                    return
                fill(self._read_at, piece, start)
                self._filled.release()
        except BaseException as error:
            self._error = error
            self._filled.release()
