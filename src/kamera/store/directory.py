"""The folder of a disk store: where files lie, how one is published, how a bad one is put aside.

DIR/                             mode 0700
  index.sqlite (-wal, -shm)      the index; can be rebuilt from the files
  entries/ab/KIND-DIGEST.safetensors
  entries/orbit/orbit-DIGEST.safetensors
  incoming/PID-RANDOM            a write in progress; never read
  quarantine/NAME.REASON.NANOSECONDS
  owners/RANDOM.lock             held by each open store, for its pins
"""

import contextlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kamera.errors import ConfigError
from kamera.store.entry import EntryKey

__all__ = ["Directory", "is_store"]

SUFFIX = ".safetensors"
OLD_TEMPORARY = ".tmp-"
"""Where a write in progress lay beside the entries, in folders of index version 1."""
MAX_QUARANTINED = 64
MAX_QUARANTINED_BYTES = 1 << 30
APART = ("orbit",)
"""Kinds that have a folder of their own: few stores hold any, and one question then answers for all."""
STALE_S = 3600.0
"""A temporary file this old is from a writer that died."""

_FILE_NAME = re.compile(r"([a-z]+)-([0-9a-f]{64})\.safetensors")


def _folder(kind: str, digest: str) -> str:
    """The name of an entry's folder."""
    return kind if kind in APART else digest[:2]


class Directory:
    """Paths and file operations of one store folder. Raises `OSError` like the system does."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.entries = self.path / "entries"
        self.incoming = self.path / "incoming"
        self.quarantined = self.path / "quarantine"
        self.owners = self.path / "owners"
        self.index = self.path / "index.sqlite"
        self._prefix = f"{self.entries}{os.sep}"
        self._open()

    def _open(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = stat.S_IMODE(self.path.stat().st_mode)
            if mode & 0o077:
                self._tighten(mode)
        except OSError as error:
            raise ConfigError(
                f"Store directory {self.path} can't be used: expected a directory that this user "
                f"owns, got {error}. Choose another one."
            ) from error
        with contextlib.suppress(OSError):  # a directory that is read-only serves what it has
            for folder in (self.entries, self.incoming, self.quarantined, self.owners):
                folder.mkdir(mode=0o700, exist_ok=True)

    def _tighten(self, mode: int) -> None:
        """Close the folder to others, if it is ours to close: empty, or a store already."""
        ours = is_store(self.path) or not any(self.path.iterdir())
        if not ours or mode & stat.S_ISVTX:
            raise ConfigError(
                f"Store directory {self.path} is open to other users (mode {mode:04o}) and isn't a "
                "Kamera store: expected a new or an empty directory. Name a folder inside it."
            )
        self.path.chmod(0o700)

    def file_of(self, key: EntryKey) -> Path:
        """Where `key` lies, present or not."""
        return Path(self.name_of(key))

    def name_of(self, key: EntryKey) -> str:
        """`file_of` as text: a `Path` costs more than the system's answer to a question."""
        kind, digest = key
        return f"{self._prefix}{_folder(kind, digest)}/{kind}-{digest}{SUFFIX}"

    def has_each(self, kind: str, digests: Sequence[str]) -> list[bool]:
        """Whether anything lies where each of these would, of one kind.

        The system walks from the opened folder: a shorter way for hundreds of names. One that can't be opened
        is walked to each time.
        """
        if kind in APART:
            names = [f"{kind}/{kind}-{digest}{SUFFIX}" for digest in digests]
        else:
            names = [f"{digest[:2]}/{kind}-{digest}{SUFFIX}" for digest in digests]
        try:
            folder = os.open(self.entries, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return [os.access(f"{self._prefix}{name}", os.F_OK) for name in names]
        try:
            return [os.access(name, os.F_OK, dir_fd=folder) for name in names]
        finally:
            os.close(folder)

    def has_folder(self, kind: str) -> bool:
        """Whether there is a folder where entries of this kind would lie: made with the first of them."""
        return kind not in APART or os.access(f"{self._prefix}{kind}", os.F_OK)

    def files(self) -> Iterator[tuple[EntryKey, Path]]:
        """Every file that is named like an entry, in no order. Unreadable folders are left out."""
        for folder in _listed(self.entries):
            for path in _listed(folder):
                match = _FILE_NAME.fullmatch(path.name)
                with contextlib.suppress(ConfigError):
                    if match and _folder(match[1], match[2]) == folder.name:
                        yield EntryKey(match[1], match[2]), path

    def sizes(self) -> list[int]:
        """The size of every entry's file."""
        sizes = []
        for _, path in self.files():
            with contextlib.suppress(OSError):
                sizes.append(path.stat().st_size)
        return sizes

    def write_temporary(self, parts: list[bytes | memoryview]) -> Path:
        """The parts on disk (fsynced), where nobody reads them."""
        self.incoming.mkdir(mode=0o700, exist_ok=True)
        path = self.incoming / f"{os.getpid()}-{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self.discard(path)
            raise
        return path

    def publish(self, temporary: Path, key: EntryKey) -> None:
        """Give a temporary file its name, in one step, and make the name durable."""
        path = self.file_of(key)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def quarantine(self, path: Path, reason: str) -> bool:
        """Move whatever lies at `path` aside, so that nothing is lost. False if that fails."""
        target = self.quarantined / f"{path.name}.{reason}.{time.time_ns()}"
        try:
            os.rename(path, target)
        except OSError:
            return False
        self._trim_quarantine()
        return True

    def _trim_quarantine(self) -> None:
        """The oldest go when there are too many; the newest always stays."""
        num_bytes = 0
        newest_first = sorted(self.put_aside(), key=_time_put_aside, reverse=True)
        for number, path in enumerate(newest_first):
            num_bytes += _whole_size(path)
            if number and (number >= MAX_QUARANTINED or num_bytes > MAX_QUARANTINED_BYTES):
                _remove_whole(path)

    def put_aside(self) -> list[Path]:
        """What lies in the quarantine: files, and folders that lay where a file should."""
        return _listed(self.quarantined)

    def empty_quarantine(self) -> int:
        """Remove what was put aside; returns how many could be removed."""
        found = self.put_aside()
        for path in found:
            _remove_whole(path)
        return sum(not os.path.lexists(path) for path in found)

    def discard(self, path: Path) -> None:
        """Remove a file; one that is gone or can't be removed is left alone."""
        with contextlib.suppress(OSError):
            path.unlink()

    def remove_stale(self) -> None:
        """Remove what writers that died left unfinished."""
        for path in _listed(self.incoming):
            _remove_if_stale(path)

    def remove_old_stale(self) -> None:
        """The same among the entries, where older versions wrote. Lists every file of the store."""
        for folder in _listed(self.entries):
            for path in _listed(folder):
                if path.name.startswith(OLD_TEMPORARY):
                    _remove_if_stale(path)


def is_store(path: Path) -> bool:
    """Whether `path` is a store's folder or a copy: `entries` with an entry, or a store's work beside it.

    Raises `OSError` where the system can't tell.
    """
    if not (path / "entries").is_dir():
        return False
    made = (path / name for name in ("owners", "quarantine", "index.lock", "index.sqlite"))
    return any(map(os.path.lexists, made)) or any(
        _FILE_NAME.fullmatch(file.name) for file in path.glob("entries/*/*")
    )


def _whole_size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder. Follows no link."""
    num_bytes, left = 0, [path]  # a list: folders may lie deeper in each other than Python can call
    while left:
        found = left.pop()
        with contextlib.suppress(OSError):
            if found.is_dir() and not found.is_symlink():
                left += _listed(found)
            else:
                num_bytes += found.lstat().st_size
    return num_bytes


def _remove_whole(path: Path) -> None:
    """Remove a file, or a folder with all that is in it. Follows no link; what can't be removed stays."""
    with contextlib.suppress(OSError):
        path.unlink()
        return
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)


def _time_put_aside(path: Path) -> int:
    """As the name says it; a name that doesn't is the oldest."""
    said = path.name.rpartition(".")[2]
    return int(said) if said.isdecimal() else 0


def _remove_if_stale(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.stat().st_mtime < time.time() - STALE_S:
            path.unlink()


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
