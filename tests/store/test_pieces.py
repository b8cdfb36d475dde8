"""Reading in pieces: one thread or two, whoever of them comes late, and whatever goes wrong."""

import inspect
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from kamera.store import pieces
from kamera.store.pieces import PIECE_BYTES, SPLIT_BYTES, ShortFileError, read_pieces
from kamera.store.second_reader import SecondReader

OFFSET = 40


class Absent(SecondReader):
    """Never comes."""

    def offer(self, work: Callable[[], None]) -> None:
        pass


class AtOnce(SecondReader):
    """Has done all that there is to do before the caller begins."""

    def offer(self, work: Callable[[], None]) -> None:
        work()


class Late(SecondReader):
    """Comes when all is done."""

    def offer(self, work: Callable[[], None]) -> None:
        self.kept = work


READERS = {"absent": Absent, "at once": AtOnce, "late": Late, "real": SecondReader}


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SecondReader:
    chosen: SecondReader = READERS[request.param]()
    monkeypatch.setattr(pieces, "second_reader", chosen)
    return chosen


class File:
    """Bytes to read, in parts of no more than `most`; `broken` is the first byte that can't be read."""

    def __init__(self, size: int, most: int = 1 << 30, broken: int | None = None) -> None:
        self.data = os.urandom(OFFSET + size)
        self.most, self.broken = most, broken
        self.num_reading = 0

    def read_at(self, view: memoryview, offset: int) -> int:
        self.num_reading += 1
        try:
            part = self.data[offset : offset + min(len(view), self.most)]
            if self.broken is not None and offset <= self.broken < offset + len(part):
                raise OSError(5, "Input/output error")
            view[: len(part)] = part
            return len(part)
        finally:
            self.num_reading -= 1


SIZES = [0, 1, PIECE_BYTES, SPLIT_BYTES - 1, SPLIT_BYTES, 4 * PIECE_BYTES, 5 * PIECE_BYTES + 3]


@pytest.mark.parametrize("most", [1 << 30, PIECE_BYTES // 3])
@pytest.mark.parametrize("size", SIZES)
def test_every_byte_is_read_and_looked_at_in_order(
    reader: SecondReader, size: int, most: int
) -> None:
    file, memory, seen = File(size, most), bytearray(size), bytearray()
    read_pieces(file.read_at, memoryview(memory), OFFSET, seen.extend)
    assert memory == file.data[OFFSET:]
    assert seen == memory
    if isinstance(reader, Late) and size >= SPLIT_BYTES:
        memory[:] = bytes(size)
        reader.kept()
        assert memory == bytes(size)


@pytest.mark.parametrize("piece", range(4))
def test_what_either_meets_the_caller_is_told(reader: SecondReader, piece: int) -> None:
    file = File(4 * PIECE_BYTES, broken=OFFSET + piece * PIECE_BYTES + 5)
    seen = bytearray()
    with pytest.raises(OSError, match="Input/output"):
        read_pieces(file.read_at, memoryview(bytearray(4 * PIECE_BYTES)), OFFSET, seen.extend)
    assert seen == file.data[OFFSET:][: len(seen)]
    assert len(seen) <= piece * PIECE_BYTES
    assert file.num_reading == 0


@pytest.mark.parametrize("missing", [1, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_a_file_that_ends_early_is_short(reader: SecondReader, missing: int) -> None:
    file = File(4 * PIECE_BYTES - missing)
    with pytest.raises(ShortFileError):
        read_pieces(file.read_at, memoryview(bytearray(4 * PIECE_BYTES)), OFFSET, bytes)


@pytest.mark.parametrize("fails", ["the caller's read", "the look"])
def test_a_caller_that_fails_leaves_no_read_behind(
    monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """The other one is in the middle of a piece then; the file is closed right after."""
    monkeypatch.setattr(pieces, "second_reader", SecondReader())
    begun, caller = threading.Event(), threading.get_ident()
    reading: list[int] = []
    ended: list[int] = []

    def read_at(view: memoryview, offset: int) -> int:
        if threading.get_ident() == caller:
            assert begun.wait(10)
            if fails == "the caller's read":
                raise OSError(5, "Input/output error")
        else:
            reading.append(offset)
            begun.set()
            time.sleep(0.05)
            ended.append(offset)
        return len(view)

    def look(piece: memoryview) -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        read_pieces(read_at, memoryview(bytearray(8 * PIECE_BYTES)), 0, look)
    assert reading == ended
    num_read = len(reading)
    time.sleep(0.1)
    assert len(reading) == num_read


def test_a_busy_reader_keeps_nothing_that_it_is_offered() -> None:
    reader, goes_on, done = SecondReader(), threading.Event(), []
    reader.offer(lambda: done.append("first") if goes_on.wait(10) else None)
    reader.offer(lambda: done.append("second"))
    goes_on.set()
    deadline = time.monotonic() + 10
    while "third" not in done and time.monotonic() < deadline:
        reader.offer(lambda: done.append("third"))
        time.sleep(0.001)
    assert done[:2] == ["first", "third"]
    assert "second" not in done


def test_a_reader_that_waits_holds_no_memory() -> None:
    class Payload:
        def read(self) -> None:
            done.set()

    reader, done, payload = SecondReader(), threading.Event(), Payload()
    gone = weakref.ref(payload)
    reader.offer(payload.read)
    assert done.wait(10)
    del payload
    deadline = time.monotonic() + 10
    while gone() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert gone() is None


def test_where_no_thread_can_be_started_the_caller_reads_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pieces, "second_reader", SecondReader())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(2):
        file, memory = File(4 * PIECE_BYTES), bytearray(4 * PIECE_BYTES)
        read_pieces(file.read_at, memoryview(memory), OFFSET, bytes)
        assert memory == file.data[OFFSET:]


def test_a_forked_process_has_a_reader_of_its_own() -> None:
    program = """
import os, threading
from kamera.store.second_reader import second_reader
def ask():
    done = threading.Event()
    second_reader.offer(done.set)
    return done.wait(10)
assert ask()
goes_on = threading.Event()
second_reader.offer(goes_on.wait)  # busy while the process forks
child = os.fork()
if not child:
    os._exit(0 if ask() else 1)
goes_on.set()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_an_interrupt_of_an_offer_leaves_the_reader_fit_for_the_next() -> None:
    """Whatever the step of it that the interrupt comes at."""
    reader, step, left = SecondReader(), 1, 0

    def interrupt(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code is not inspect.unwrap(SecondReader.offer).__code__:
            return None
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if not left:
            raise KeyboardInterrupt
        return interrupt

    def is_taken() -> bool:
        done = threading.Event()
        reader.offer(done.set)
        return done.wait(0.05)

    while True:
        left, before = step, sys.gettrace()
        sys.settrace(interrupt)
        try:
            if is_taken():
                break  # an offer without an interrupt
        except KeyboardInterrupt:
            step += 1
        finally:
            sys.settrace(before)
        assert any(is_taken() for _ in range(20)), f"it takes nothing any more after step {step}"
    assert step > 10
