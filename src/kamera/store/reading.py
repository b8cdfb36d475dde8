"""Opening an entry's file with every check that comes before its payload."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kamera.store.contract import MissReason, Problem, VerifyReport
from kamera.store.directory import Directory
from kamera.store.entry import Entry, EntryKey
from kamera.store.file_format import (
    EntryFormatError,
    Header,
    check_payload,
    read_entry,
    read_header,
)
from kamera.store.pieces import ReadAt

__all__ = ["NotAFileError", "OpenEntry", "is_newer", "open_entry", "verify_files"]


class NotAFileError(OSError):
    """A folder, link, pipe or device lies where an entry's file should."""


class OpenEntry(NamedTuple):
    """A file whose header is good. `read` goes on with the payload."""

    read_at: ReadAt
    num_bytes: int
    header: Header

    def read(self) -> Entry:
        """The entry, verified. Raises `EntryFormatError` or `OSError`."""
        return read_entry(self.read_at, self.header)


@contextmanager
def open_entry(
    path: str | Path, key: EntryKey, max_bytes: int | None = None
) -> Iterator[OpenEntry]:
    """The file of `key` at `path`. Neither follows a link nor waits on a pipe.

    Raises `EntryFormatError` for a bad header or another entry's file, `OSError` where the system
    won't let us read, and for a file of more than `max_bytes`. The error has the file's `inode`.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotAFileError(f"{key}'s file is a link") from None
        raise

    def read_at(view: memoryview, offset: int) -> int:
        return os.preadv(descriptor, [view], offset)

    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotAFileError(f"{key}'s file isn't a regular file")
        if max_bytes is not None and status.st_size > max_bytes:
            raise OSError(errno.EFBIG, f"a file of {status.st_size} bytes, the cap is {max_bytes}")
        try:
            header = read_header(read_at, status.st_size)
            if header.key != key:
                raise EntryFormatError(MissReason.FOREIGN, f"the file is that of {header.key}")
            yield OpenEntry(read_at, status.st_size, header)
        except EntryFormatError as error:
            error.inode = status.st_ino
            raise
    finally:
        os.close(descriptor)


def is_newer(path: str | Path, key: EntryKey) -> bool:
    """Whether the file of `key` at `path` is of a newer format version. False where there is none."""
    try:
        with open_entry(path, key):
            return False
    except EntryFormatError as error:
        return error.reason is MissReason.NEWER
    except OSError:
        return False


def verify_files(directory: Directory, max_bytes: int) -> VerifyReport:
    """Read every entry of a folder and check every digest."""
    num_checked, problems, newer = 0, [], []
    for key, path in directory.files():
        num_checked += 1
        try:
            with open_entry(path, key, max_bytes) as opened:
                check_payload(opened.read_at, opened.header)
        except EntryFormatError as error:
            problem = Problem(path.name, error.reason, str(error))
            if error.reason is MissReason.NEWER:
                num_checked -= 1
                newer.append(problem)
            else:
                problems.append(problem)
        except FileNotFoundError:
            num_checked -= 1  # evicted meanwhile
        except OSError as error:
            problems.append(Problem(path.name, MissReason.UNREADABLE, str(error)))
    return VerifyReport(num_checked, tuple(problems), tuple(newer))
