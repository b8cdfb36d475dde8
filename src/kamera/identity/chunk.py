"""The name of a chunk, and the name of what stood before it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kamera.errors import ConfigError
from kamera.identity.digests import check_digest, check_tenant, digest
from kamera.identity.media import MediaIdentity
from kamera.identity.model import ModelKey

__all__ = ["CHUNK_KINDS", "MEDIA_KINDS", "POSITION_LAYOUT_VERSION", "AntecedentKey", "ChunkKey"]

CHUNK_VERSION = 1
ANTECEDENT_VERSION = 2

POSITION_LAYOUT_VERSION = 1
"""Version of the rules that turn a chunk's tokens and grid into positions."""

MEDIA_KINDS = ("image", "video", "audio")
CHUNK_KINDS = ("text", *MEDIA_KINDS)


@dataclass(frozen=True)
class ChunkKey:
    """All that decides the canonical KV of one chunk.

    `token_ids` are all of the chunk's tokens, wrapper tokens included. Placeholders share
    one id, so an image, video or audio chunk names its media in `contents`, in the order in which they
    appear; a text chunk has none. `tenant` is the operator's name for whose data this is, never
    the client's wish; None and "" are two tenants.
    """

    model: ModelKey
    tenant: str | None
    kind: str
    token_ids: tuple[int, ...]
    contents: tuple[MediaIdentity, ...] = ()
    position_layout: int = POSITION_LAYOUT_VERSION
    digest: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        check_tenant(self.tenant)
        if self.kind not in CHUNK_KINDS:
            raise ConfigError(
                f"Unknown chunk kind: expected one of {', '.join(CHUNK_KINDS)}, got {self.kind!r}."
            )
        if (self.kind == "text") != (not self.contents):
            raise ConfigError(
                f"Chunk of kind {self.kind!r} has {len(self.contents)} contents: expected none for "
                "text and at least one for media. Pass the MediaIdentity of each item."
            )
        self._check_tokens()
        object.__setattr__(self, "digest", digest("kamera.chunk", CHUNK_VERSION, self._identity()))

    def _check_tokens(self) -> None:
        ids = self.token_ids
        if type(ids) is not tuple or not ids or set(map(type, ids)) != {int}:
            raise ConfigError(
                f"Invalid token ids: expected a non-empty tuple of int, got {ids!r:.80}. "
                "Use tuple(tensor.tolist())."
            )
        if min(ids) < 0 or max(ids) >= 1 << 63:
            raise ConfigError(
                f"Invalid token ids: expected 0 <= id < 2**63, got {min(ids)} to {max(ids)}."
            )

    def _identity(self) -> dict[str, object]:
        return {
            "model": self.model.digest,
            "tenant": self.tenant,
            "kind": self.kind,
            "token_ids": np.array(self.token_ids, dtype=np.int64),
            "contents": [content.digest for content in self.contents],
            "position_layout": self.position_layout,
        }


@dataclass(frozen=True)
class AntecedentKey:
    """The ordered chunks before a chunk, by their digests. No chunk at all is a valid antecedent.

    `digest` depends on the order, `set_digest` doesn't; it counts repeats, so that a doubled antecedent isn't
    the single one. A patch says by one of them what it was formed on; its own name is `PatchNames`'.
    """

    chunks: tuple[str, ...]
    digest: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        link = _NO_ANTECEDENT
        for index, chunk in enumerate(self.chunks):
            pair = [link, check_digest(f"Antecedent {index}", chunk)]
            link = digest("kamera.antecedent", ANTECEDENT_VERSION, pair)
        object.__setattr__(self, "digest", link)

    @classmethod
    def of(cls, chunks: Iterable[ChunkKey]) -> "AntecedentKey":
        """The antecedent that these chunks make, in this order."""
        return cls(tuple(chunk.digest for chunk in chunks))

    @cached_property
    def set_digest(self) -> str:
        """The name of the set; each chunk is of one length, so that their text has one reading."""
        return digest("kamera.antecedent-set", ANTECEDENT_VERSION, "".join(sorted(self.chunks)))


_NO_ANTECEDENT = digest("kamera.antecedent", ANTECEDENT_VERSION, [])
