"""What a solo request is made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class ImageSource:
    """One image, as a client's request names it.

    Attributes:
        url: `data:`, `http(s):` or `file:`; vLLM's own media connector decides what it may load.
        cache_salt: the request's; it separates tenants, so a canonical is made under each.
        media_io_kwargs, mm_processor_kwargs: the request's own; they change the processed pixels.
    """

    url: str
    cache_salt: str | None = None
    media_io_kwargs: Mapping[str, Any] | None = None
    mm_processor_kwargs: Mapping[str, Any] | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything above: the same source is sent once."""
        kwargs = [self.cache_salt, self.media_io_kwargs, self.mm_processor_kwargs]
        head = json.dumps(kwargs, sort_keys=True, default=repr).encode()
        digest = hashlib.sha256(b"image %d " % len(head) + head)
        digest.update(self.url.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    @property
    def num_bytes(self) -> int:
        """What it holds in memory, near enough."""
        return len(self.url)

    @property
    def changes(self) -> bool:
        """Whether the same url may show something else later: the bytes of a `data:` url can't."""
        return self.url[:5].lower() != "data:"


@dataclass(frozen=True)
class TextSource:
    """A span of token ids, as the connector's spool names it."""

    token_ids: tuple[int, ...]
    cache_salt: str | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over both: the same source is sent once."""
        text = json.dumps([self.cache_salt, self.token_ids])
        return hashlib.sha256(b"text " + text.encode()).hexdigest()

    @property
    def num_bytes(self) -> int:
        """What it holds in memory, near enough."""
        return 8 * len(self.token_ids)


Source = ImageSource | TextSource
