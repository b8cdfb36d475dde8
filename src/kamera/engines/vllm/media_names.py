"""`MediaNames`: whether vLLM's name of a media item stands for one content only.

vLLM keeps KV and vision embeddings under the name, and a client may choose it (`uuid`). With two contents
under one name the engine may have computed the second request on what it kept of the first.
"""

from __future__ import annotations

from collections import OrderedDict

MAX_NAMES = 100_000
"""Names remembered, the latest used last. vLLM's own caches hold far fewer items."""


class MediaNames:
    """Name -> the digest of the content that it was first seen with."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, str | None] = OrderedDict()

    def is_one(self, name: str, content: str) -> bool:
        """Remember the name. False once it was seen with two contents, for good."""
        known = self._known.setdefault(name, content)
        self._known.move_to_end(name)
        if known != content:
            self._known[name] = None
        if len(self._known) > MAX_NAMES:
            self._known.popitem(last=False)
        return known == content
