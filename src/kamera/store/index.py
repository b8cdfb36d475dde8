"""The index of a disk store: what is there, how large, and who used it last. SQLite, WAL.

The files are the truth and the index a convenience: a read finds its file by name alone, and the
index can be thrown away at any time. Every method raises `sqlite3.Error` like SQLite does.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from kamera.errors import ConfigError
from kamera.store.entry import EntryKey

__all__ = ["INDEX_VERSION", "Index"]

INDEX_VERSION = 1
MAX_REMEMBERED = 65_536
"""Evicted keys that are remembered as such; an older one is UNKNOWN again."""
BUSY_S = 10.0
CHECKED_BYTES = 16 << 20
"""An index of up to this size (some 60,000 entries) is checked page by page when it is opened. In a larger
one a bad page is found when it is used, and the index is rebuilt then: opening mustn't read all of it."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
  kind TEXT NOT NULL, digest TEXT NOT NULL, model TEXT NOT NULL, tenant TEXT,
  bytes INTEGER NOT NULL, last_used INTEGER NOT NULL, PRIMARY KEY (kind, digest)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_by_use ON entries (last_used);
CREATE TABLE IF NOT EXISTS evicted (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, digest TEXT NOT NULL, UNIQUE (kind, digest));
CREATE TABLE IF NOT EXISTS pins (
  kind TEXT NOT NULL, digest TEXT NOT NULL, owner TEXT NOT NULL,
  PRIMARY KEY (kind, digest, owner)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS totals (
  id INTEGER PRIMARY KEY CHECK (id = 0), entries INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT OR IGNORE INTO totals VALUES (0, 0, 0);
CREATE TRIGGER IF NOT EXISTS count_insert AFTER INSERT ON entries BEGIN
  UPDATE totals SET entries = entries + 1, bytes = bytes + new.bytes; END;
CREATE TRIGGER IF NOT EXISTS count_delete AFTER DELETE ON entries BEGIN
  UPDATE totals SET entries = entries - 1, bytes = bytes - old.bytes; END;
CREATE TRIGGER IF NOT EXISTS count_update AFTER UPDATE OF bytes ON entries BEGIN
  UPDATE totals SET bytes = bytes + new.bytes - old.bytes; END;
"""

_UPSERT = """
INSERT INTO entries VALUES
  (?, ?, ?, ?, ?, (SELECT COALESCE(MAX(last_used), 0) + 1 FROM entries))
ON CONFLICT (kind, digest) DO UPDATE SET model = excluded.model, tenant = excluded.tenant,
  bytes = excluded.bytes, last_used = excluded.last_used
"""


class Index:
    """One connection. Not safe between threads by itself: the disk store serialises its use.

    One that `is_suspect` is checked whole when it is opened, whatever its size.
    """

    def __init__(self, path: Path, *, is_suspect: bool = False) -> None:
        self._db = sqlite3.connect(
            path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            if is_suspect or path.stat().st_size <= CHECKED_BYTES:
                self.check_pages()
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, INDEX_VERSION):
                raise sqlite3.DatabaseError(f"index version {version}, expected {INDEX_VERSION}")
            self.is_new = version == 0
            if self.is_new:
                self._db.executescript(_SCHEMA)
            self.totals()
        except BaseException:
            self._db.close()
            raise

    def check_pages(self) -> None:
        """Read every page. Raises `sqlite3.DatabaseError` for one that is malformed."""
        verdict = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(f"index is malformed: {verdict}")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and no other writer in between, in any process."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise
        try:
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def mark_built(self) -> None:
        """Say that the index now lists what the files hold."""
        self._db.execute(f"PRAGMA user_version = {INDEX_VERSION}")
        self.is_new = False

    def clear(self) -> None:
        """Forget every entry and every eviction. Pins stay."""
        self._db.execute("DELETE FROM entries")
        self._db.execute("DELETE FROM evicted")

    def used(self, key: EntryKey, model: str, tenant: str | None, num_bytes: int) -> None:
        """List `key`, or list it anew, as the one used last."""
        self._db.execute(_UPSERT, (key.kind, key.digest, model, tenant, num_bytes))
        self._db.execute("DELETE FROM evicted WHERE kind = ? AND digest = ?", _pair(key))

    def touch(self, key: EntryKey) -> bool:
        """Make `key` the one used last. False if it isn't listed."""
        cursor = self._db.execute(
            "UPDATE entries SET last_used = (SELECT MAX(last_used) + 1 FROM entries) "
            "WHERE kind = ? AND digest = ?",
            _pair(key),
        )
        return cursor.rowcount > 0

    def remove(self, key: EntryKey, *, evicted: bool = False) -> None:
        """Take `key` off the list; `evicted` remembers why."""
        self._db.execute("DELETE FROM entries WHERE kind = ? AND digest = ?", _pair(key))
        if evicted:
            self._db.execute(
                "INSERT OR REPLACE INTO evicted (kind, digest) VALUES (?, ?)", _pair(key)
            )
            self._db.execute(
                "DELETE FROM evicted WHERE id <= (SELECT MAX(id) FROM evicted) - ?",
                (MAX_REMEMBERED,),
            )

    def was_evicted(self, key: EntryKey) -> bool:
        """Whether `key` left for want of room and hasn't come back."""
        row = self._db.execute("SELECT 1 FROM evicted WHERE kind = ? AND digest = ?", _pair(key))
        return row.fetchone() is not None

    def bytes_of(self, key: EntryKey) -> int | None:
        """The listed size of `key`'s file, or None."""
        row = self._db.execute(
            "SELECT bytes FROM entries WHERE kind = ? AND digest = ?", _pair(key)
        ).fetchone()
        return None if row is None else int(row[0])

    def totals(self) -> tuple[int, int]:
        """Number of entries and bytes of their files."""
        entries, num_bytes = self._db.execute("SELECT entries, bytes FROM totals").fetchone()
        return int(entries), int(num_bytes)

    def counted_totals(self) -> tuple[int, int]:
        """`totals`, counted row by row."""
        query = "SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM entries"
        entries, num_bytes = self._db.execute(query).fetchone()
        return int(entries), int(num_bytes)

    def keys(self) -> list[EntryKey]:
        """All listed keys of kinds that are known here, the least recently used first."""
        rows = self._db.execute("SELECT kind, digest FROM entries ORDER BY last_used")
        return [key for row in rows if (key := _key_of(*row)) is not None]

    def unpinned(self) -> Iterator[tuple[EntryKey, int]]:
        """Keys that may leave and their bytes, the least recently used first."""
        rows = self._db.execute(
            "SELECT kind, digest, bytes FROM entries AS e WHERE NOT EXISTS "
            "(SELECT 1 FROM pins AS p WHERE p.kind = e.kind AND p.digest = e.digest) "
            "ORDER BY last_used"
        )
        for kind, digest, num_bytes in rows:
            key = _key_of(kind, digest)
            if key is not None:
                yield key, int(num_bytes)

    def add_pin(self, owner: str, key: EntryKey) -> None:
        """Hold `key` for `owner`."""
        self._db.execute("INSERT OR IGNORE INTO pins VALUES (?, ?, ?)", (*_pair(key), owner))

    def remove_pin(self, owner: str, key: EntryKey) -> None:
        """Let go of `key` for `owner`."""
        query = "DELETE FROM pins WHERE owner = ? AND kind = ? AND digest = ?"
        self._db.execute(query, (owner, *_pair(key)))

    def remove_owner(self, owner: str) -> None:
        """Let go of all that `owner` held."""
        self._db.execute("DELETE FROM pins WHERE owner = ?", (owner,))

    def owners(self) -> list[str]:
        """Everyone who holds a pin."""
        return [row[0] for row in self._db.execute("SELECT DISTINCT owner FROM pins")]

    def is_pinned(self, key: EntryKey) -> bool:
        """Whether anyone holds `key`."""
        row = self._db.execute("SELECT 1 FROM pins WHERE kind = ? AND digest = ?", _pair(key))
        return row.fetchone() is not None

    def num_pinned(self) -> int:
        """Number of keys that someone holds."""
        query = "SELECT COUNT(*) FROM (SELECT DISTINCT kind, digest FROM pins)"
        return int(self._db.execute(query).fetchone()[0])


def _key_of(kind: str, digest: str) -> EntryKey | None:
    """None for a kind that a later Kamera added: it knows where such files lie, and lets them leave."""
    try:
        return EntryKey(kind, digest)
    except ConfigError:
        return None


def _pair(key: EntryKey) -> tuple[str, str]:
    return key.kind, key.digest
