"""The contract of every store, and the typed results that it answers with.

**Never an exception for the cache's own trouble.** A missing, evicted, corrupt or foreign entry is
a `Miss` that says why; a failed write is a `PutResult` that says why. Both are counted. Full
prefill is always right, so the caller recomputes. `ConfigError` is for callers' mistakes alone.

**Isolation.** `get` names the model and the tenant that ask. An entry of another model or tenant is
a FOREIGN miss, on every tier. The tenant is the operator's.

**Aliasing.** `put` takes a copy: the tensors may be overwritten when it returns. What `get` returns
is read-only by convention; it may be shared with the store and with other readers. It stays valid
after the entry is evicted or deleted. An entry's tensors may lie in one piece of memory, which lives as
long as any of them: clone one that is to outlive the others.

**Pins.** Between entry and exit of `pin(key)` the entry is neither evicted nor deleted by any user
of the store, in any thread (and, on disk, in any process). Pins nest and count. Pinning a key that
isn't there is allowed and protects it from the moment that it is put. A put of a pinned key
replaces it.

**Threads.** Every method may be called from any thread. A put is visible whole or not at all.

**Closing.** After `close` every get is a miss and every put fails; closing twice is fine.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import TypeVar

from kamera.store.entry import Entry, EntryKey

__all__ = [
    "Hit",
    "Miss",
    "MissReason",
    "Peek",
    "Problem",
    "PutReason",
    "PutResult",
    "Store",
    "StoreStats",
    "VerifyReport",
]


S = TypeVar("S", bound="Store")


class MissReason(Enum):
    """Why a get wasn't a hit."""

    UNKNOWN = "unknown"
    """Never seen here (or forgotten so long ago that its eviction is forgotten too)."""
    EVICTED = "evicted"
    """Was here and left for want of room."""
    CORRUPT = "corrupt"
    """Its bytes don't match their digests, or can't be parsed."""
    TRUNCATED = "truncated"
    """Its file is shorter than it says."""
    FOREIGN = "foreign"
    """Valid, but of another model, tenant, key or format."""
    NEWER = "newer"
    """Of a newer format version than this Kamera reads. The file stays where it is."""
    UNREADABLE = "unreadable"
    """The system wouldn't let us read it (permission, I/O error, not a file, store closed)."""


class PutReason(Enum):
    """What became of a put."""

    STORED = "stored"
    MEMORY_ONLY = "memory_only"
    """Kept in the memory tier alone: the disk tier failed, and says why in its own counters."""
    TOO_LARGE = "too_large"
    """Larger than the store's whole cap."""
    NO_ROOM = "no_room"
    """All that could make room is pinned."""
    WRITE_FAILED = "write_failed"
    """The system refused the write (disk full, permission, store closed). Nothing is visible."""


@dataclass(frozen=True)
class Hit:
    """The entry, verified."""

    entry: Entry

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True)
class Miss:
    """No entry, and why. `detail` is one line for a person."""

    reason: MissReason
    detail: str

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True)
class Peek:
    """What can be told of an entry without reading it.

    Attributes:
        num_bytes: about as much memory as a get takes.
        version: another one once another entry has been put under the key, or it left and came back.
    """

    num_bytes: int
    version: Hashable


@dataclass(frozen=True)
class PutResult:
    """What became of a put; true if the entry can now be got."""

    reason: PutReason
    detail: str = ""

    @property
    def stored(self) -> bool:
        """Whether the entry can now be got from this store."""
        return self.reason in (PutReason.STORED, PutReason.MEMORY_ONLY)

    def __bool__(self) -> bool:
        return self.stored


@dataclass(frozen=True)
class StoreStats:
    """Counts since the store was opened, and what it holds now.

    `misses` and `failed_puts` have every reason, zero or not. A tiered store counts each request
    once and shows its tiers' own counts, which add up to more, under `tiers`.
    """

    num_entries: int
    num_bytes: int
    max_bytes: int
    num_pinned: int
    hits: int
    puts: int
    evictions: int
    quarantined: int
    misses: dict[MissReason, int]
    failed_puts: dict[PutReason, int]
    tiers: "dict[str, StoreStats]" = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """One entry or file that isn't what it should be."""

    name: str
    reason: MissReason
    detail: str


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` found. It reads everything and changes nothing.

    `newer` are files of a newer format version, which can't be checked here: neither good nor bad.
    """

    num_checked: int
    problems: tuple[Problem, ...]
    newer: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every entry that was checked is whole."""
        return not self.problems


class Store(ABC):
    """Entries under a byte cap, least recently used first out. The promises are the module's."""

    @abstractmethod
    def put(self, entry: Entry) -> PutResult:
        """Keep a copy of `entry`, in place of any of its key. Evicts to stay under the cap."""

    @abstractmethod
    def get(self, key: EntryKey, *, model: str, tenant: str | None) -> Hit | Miss:
        """The entry of `key`, if it is whole and belongs to `model` and `tenant`."""

    @abstractmethod
    def contains(self, key: EntryKey) -> bool:
        """Whether an entry is listed under `key`. Neither verifies it nor counts as a use."""

    def contains_each(self, kind: str, digests: Sequence[str]) -> list[bool]:
        """`contains` of each digest under one kind, in order: what a plan asks. Not of one moment."""
        return [self.contains(EntryKey.of_checked(kind, digest)) for digest in digests]

    def may_contain(self, kind: str) -> bool:
        """Whether an entry of this kind may be listed: False is certain, and no key needs asking for."""
        return True

    @abstractmethod
    def peek(self, key: EntryKey) -> Peek | None:
        """What can be told of `key` unread; None if it isn't there. Doesn't count as a use."""

    @abstractmethod
    def in_memory(self, key: EntryKey) -> bool:
        """Whether a get of `key` would be answered without reading a disk."""

    @abstractmethod
    def pin(self, key: EntryKey) -> AbstractContextManager[bool]:
        """Hold `key` against eviction and deletion; yields `contains(key)` as it was then held."""

    @abstractmethod
    def delete(self, key: EntryKey) -> bool:
        """Drop `key`. False if it wasn't there, is pinned, or couldn't be removed."""

    @abstractmethod
    def keys(self) -> list[EntryKey]:
        """All listed keys, the least recently used first."""

    @abstractmethod
    def stats(self) -> StoreStats:
        """Counters and sizes of this moment."""

    @abstractmethod
    def verify(self) -> VerifyReport:
        """Read every entry and check every digest. Counts nothing and moves nothing."""

    @abstractmethod
    def check_integrity(self) -> None:
        """Raise `AssertionError` if the store's own books don't add up. For tests and `doctor`."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and memory. Entries on disk stay."""

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
