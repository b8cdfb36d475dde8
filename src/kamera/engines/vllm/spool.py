"""The spool: which canonicals are wanted, as files that the fill companion reads."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
import time
from pathlib import Path

from kamera.chunk import Chunk

VERSION = 1
MAX_FILES = 4096
COMING_S = 30.0
"""How long a canonical that was captured may take to be stored before it is asked for again."""
FOLDER = "wanted"

logger = logging.getLogger(__name__)


class Spool:
    """`<store>/wanted`: one JSON file a chunk, named by its digest. Only the scheduler's half writes it."""

    def __init__(self, store: str | Path) -> None:
        self.folder = Path(store) / FOLDER
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._asked = dict.fromkeys(path.stem for path in self.folder.glob("*.json"))
        self._coming: dict[str, float] = {}

    def ask(self, chunk: Chunk, cache_salt: str | None, mm_hash: str | None) -> None:
        """Say that this chunk's canonical is wanted. Once a chunk; a full disk is no error."""
        if chunk.digest in self._asked or self._comes(chunk.digest):
            return
        while len(self._asked) >= MAX_FILES:  # the oldest leaves: it may be one that never comes
            self.done(next(iter(self._asked)))
        wanted: dict[str, object] = {"version": VERSION, "cache_salt": cache_salt}
        if chunk.key.kind == "text":
            wanted |= {"kind": "text", "token_ids": list(chunk.key.token_ids)}
        else:
            wanted |= {"kind": chunk.key.kind, "mm_hash": mm_hash}
        try:
            self._publish(self.folder / f"{chunk.digest}.json", json.dumps(wanted))
            self._asked[chunk.digest] = None
        except OSError as error:
            logger.warning("Kamera: can't say that a canonical is wanted: %s", error)

    def coming(self, digest: str) -> None:
        """The canonical was captured and will be stored: don't ask while it is on its way."""
        if len(self._coming) >= MAX_FILES:
            self._coming.clear()
        self._coming[digest] = time.monotonic()
        self.done(digest)

    def done(self, digest: str) -> None:
        """The canonical is there: take the file away."""
        if digest in self._asked:
            del self._asked[digest]
            with contextlib.suppress(OSError):
                (self.folder / f"{digest}.json").unlink(missing_ok=True)

    def clear(self) -> None:
        """Want nothing any more."""
        for digest in list(self._asked):
            self.done(digest)

    def _comes(self, digest: str) -> bool:
        return time.monotonic() - self._coming.get(digest, -COMING_S) < COMING_S

    def _publish(self, path: Path, text: str) -> None:
        descriptor, name = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            os.replace(name, path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
