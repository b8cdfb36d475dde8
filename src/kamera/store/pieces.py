"""Reading a file piece by piece into memory, each piece looked at while it is still in the cache."""

import threading
from collections.abc import Callable
from itertools import count

from kamera.store.second_reader import second_reader

__all__ = ["PIECE_BYTES", "SPLIT_BYTES", "ReadAt", "ShortFileError", "fill", "read_pieces"]

PIECE_BYTES = 512 << 10
SPLIT_BYTES = 1536 << 10
"""From this size on a second thread reads along. It comes after some 25 us, the time of reading 200 kB."""

ReadAt = Callable[[memoryview, int], int]
"""Fills a part of the memory from the given byte of the file on; how many bytes it was, 0 at the end."""
Look = Callable[[memoryview], object]


class ShortFileError(Exception):
    """The file ended before the memory was full."""


def fill(read_at: ReadAt, view: memoryview, offset: int) -> None:
    """The file's bytes from `offset` on, until `view` is full. Raises `ShortFileError`."""
    done, size = 0, len(view)
    while done < size:
        num_read = read_at(view[done:] if done else view, offset + done)
        if not num_read:
            raise ShortFileError("the file ended while it was read")
        done += num_read


def read_pieces(read_at: ReadAt, view: memoryview, offset: int, look: Look) -> None:
    """`fill`, and `look` at all of it, in order. `read_at` must be fit for two threads."""
    if len(view) >= SPLIT_BYTES:
        _Split(read_at, view, offset).read(look)
        return
    for start in range(0, len(view), PIECE_BYTES):
        piece = view[start : start + PIECE_BYTES]
        fill(read_at, piece, offset + start)
        look(piece)


class _Split:
    """One read by two threads: each takes the next piece that nobody has, and the caller looks at them.

    The caller waits for no more than the piece that the other one is filling: if that one comes late, or not
    at all, it has found nothing to do.
    """

    def __init__(self, read_at: ReadAt, view: memoryview, offset: int) -> None:
        self._read_at, self._view, self._offset = read_at, view, offset
        self._num_pieces = -(-len(view) // PIECE_BYTES)
        self._numbers = count()  # its `next` is one step: no two threads get the same
        self._is_full = bytearray(self._num_pieces + 1)
        # Held by the other one from taking a piece to having filled it.
        self._helping = threading.Lock()
        self._is_over = False
        self._error: BaseException | None = None

    def read(self, look: Look) -> None:
        """Fill the view and look at all of it, in order."""
        seen = 0
        second_reader.offer(self._help)
        try:
            while self._fill_next():
                while self._is_full[seen]:
                    look(self._piece(seen))
                    seen += 1
        finally:
            self._is_over = True
            with self._helping:  # the memory and the file may go now
                pass
        if self._error is not None:
            raise self._error
        for number in range(seen, self._num_pieces):
            look(self._piece(number))

    def _help(self) -> None:
        try:
            going_on = True
            while going_on:
                with self._helping:
                    going_on = not self._is_over and self._fill_next()
        except BaseException as error:
            self._error = error

    def _fill_next(self) -> bool:
        """Fill the next piece that nobody has taken. False if there is none."""
        number = next(self._numbers)
        if number >= self._num_pieces:
            return False
        fill(self._read_at, self._piece(number), self._offset + number * PIECE_BYTES)
        self._is_full[number] = True
        return True

    def _piece(self, number: int) -> memoryview:
        return self._view[number * PIECE_BYTES : (number + 1) * PIECE_BYTES]
