"""Who holds a pin: one lock file per open store, so that a dead process's pins can be told."""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

__all__ = ["Owner"]


class Owner:
    """A name that stands as long as this store is open. The system drops the lock if we die."""

    def __init__(self, folder: Path) -> None:
        self.name = secrets.token_hex(16)
        self._folder = folder
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):  # read-only: nothing can be evicted there either
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(self._path(self.name), flags, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._descriptor = descriptor

    def is_dead(self, name: str) -> bool:
        """Whether the owner `name` is gone; its lock file is removed then."""
        if name == self.name:
            return False
        try:
            descriptor = os.open(self._path(name), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path(name).unlink(missing_ok=True)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def close(self) -> None:
        """Give the name up."""
        if self._descriptor is not None:
            self._path(self.name).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def _path(self, name: str) -> Path:
        return self._folder / f"{Path(name).name}.lock"
