"""The spool `<store>/wanted`: one JSON file a chunk whose canonical the connector misses.

The connector writes and removes the files; here they are only read. Nothing in one is relied on.
"""

import json
import os
import stat
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

FOLDER = "wanted"
VERSION = 1
MAX_FILES = 4096
MAX_FILE_BYTES = 16 * 1024 * 1024
"""A million token ids of ten digits and a comma fit."""
_MAX_TOKEN_ID = 2**31


@dataclass(frozen=True)
class Wanted:
    """One chunk that is wanted: a text by its token ids, or a media item by vLLM's own hash of it."""

    name: str
    cache_salt: str | None
    token_ids: tuple[int, ...] = ()
    mm_hash: str | None = None


@dataclass
class _Entry:
    wanted: Wanted
    age_key: tuple[float, str]
    num_tries: int = 0
    tried_at: float = 0.0


class Spool:
    """What the folder holds, read as it grows; each file is read once.

    Args:
        store: the store's folder.
        retry_s: a chunk that is still wanted so long after a try is due again.
        max_tries: after so many it is given up, until its file is gone and comes back.
    """

    def __init__(self, store: Path, retry_s: float, max_tries: int) -> None:
        self._folder = store / FOLDER
        self._retry_s, self._max_tries = retry_s, max_tries
        self._entries: dict[str, _Entry] = {}
        self._unreadable: set[str] = set()

    @property
    def num_wanted(self) -> int:
        """Files at the last look."""
        return len(self._entries)

    @property
    def num_unreadable(self) -> int:
        """Files at the last look that aren't valid."""
        return len(self._unreadable)

    @property
    def num_given_up(self) -> int:
        """Chunks that are no longer tried."""
        return sum(entry.num_tries >= self._max_tries for entry in self._entries.values())

    def refresh(self) -> None:
        """Look at the folder: new files are read, those that are gone were served."""
        names = _names(self._folder)
        self._entries = {name: e for name, e in self._entries.items() if name in names}
        self._unreadable &= names
        for name in names - self._entries.keys() - self._unreadable:
            try:
                modified_at, wanted = _read(self._folder / name)
            except FileNotFoundError:
                continue
            except (OSError, ValueError, RecursionError):
                self._unreadable.add(name)
                continue
            self._entries[name] = _Entry(wanted, (modified_at, name))

    def due(self, now: float) -> list[Wanted]:
        """What should be tried, the longest wanted first."""
        entries = [entry for entry in self._entries.values() if self._is_due(entry, now)]
        return [entry.wanted for entry in sorted(entries, key=lambda entry: entry.age_key)]

    def tried(self, wanted: Wanted, now: float) -> bool:
        """Note a try. Returns whether it wasn't the first."""
        entry = self._entries[wanted.name]
        entry.num_tries += 1
        entry.tried_at = now
        return entry.num_tries > 1

    def _is_due(self, entry: _Entry, now: float) -> bool:
        if entry.num_tries >= self._max_tries:
            return False
        return entry.num_tries == 0 or now - entry.tried_at >= self._retry_s


def _names(folder: Path) -> set[str]:
    """Files that may be the connector's: links and temporary names aren't."""
    try:
        with os.scandir(folder) as found:
            names = (entry.name for entry in found if not entry.is_symlink())
            return set(islice((name for name in names if _may_be(name)), MAX_FILES))
    except OSError:  # no such folder yet, or not ours to read
        return set()


def _may_be(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _read(path: Path) -> tuple[float, Wanted]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ValueError("not a file of ours")
        if status.st_size > MAX_FILE_BYTES:
            raise ValueError("too large")
        value = json.loads(file.read(MAX_FILE_BYTES))
    return status.st_mtime, _wanted(path.name, value)


def _wanted(name: str, value: Any) -> Wanted:
    if not isinstance(value, dict) or value.get("version") != VERSION:
        raise ValueError("not of this version")
    salt = value.get("cache_salt")
    if salt is not None and not isinstance(salt, str):
        raise ValueError("cache_salt isn't a text")
    if value.get("kind") == "text":
        return Wanted(name, salt, token_ids=_token_ids(value.get("token_ids")))
    mm_hash = value.get("mm_hash")
    if not isinstance(mm_hash, str) or not mm_hash:
        raise ValueError("neither a text nor a media item")
    return Wanted(name, salt, mm_hash=mm_hash)


def _token_ids(value: Any) -> tuple[int, ...]:
    ids = value if isinstance(value, list) else []
    if not ids or not all(type(i) is int and 0 <= i < _MAX_TOKEN_ID for i in ids):
        raise ValueError("token_ids aren't token ids")
    return tuple(ids)
