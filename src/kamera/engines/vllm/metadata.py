"""What the scheduler's half tells the workers' halves in one step: plain data, pickled between processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from kamera.chunk import Chunk
from kamera.planner import PatchRecord


@dataclass(frozen=True)
class Owner:
    """Whose entries these are in the store: the model's digest (one for each shard) and the tenant."""

    models: tuple[str, ...]
    tenant: str | None


@dataclass(frozen=True)
class Piece:
    """One chunk to compose: its key for each shard, where it starts, and its patch (None: blind)."""

    chunks: tuple[Chunk, ...]
    patches: tuple[PatchRecord | None, ...]
    start: int


@dataclass(frozen=True)
class LoadJob:
    """Compose pieces, one behind the other from token 0, into a request's blocks from token `skip` on."""

    request: str
    owner: Owner
    pieces: tuple[Piece, ...]
    skip: int
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class CaptureJob:
    """Read one chunk's KV, prefilled by the engine, and keep it.

    Attributes:
        chunks: its key for each shard.
        begin: its first token in the request.
        start: its first position.
        blocks: the request's blocks.
        antecedents: for each shard the digests in front; empty when the KV is the canonical.
        contexts: for each shard the name of how these were made; "" when all are exact.
    """

    owner: Owner
    chunks: tuple[Chunk, ...]
    begin: int
    start: int
    blocks: tuple[int, ...]
    antecedents: tuple[tuple[str, ...], ...]
    contexts: tuple[str, ...]


@dataclass
class Jobs:
    """One step's jobs."""

    loads: list[LoadJob] = field(default_factory=list)
    captures: list[CaptureJob] = field(default_factory=list)
    forget: bool = False
    """Drop what waits for a canonical: the cache was reset."""
