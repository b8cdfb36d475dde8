"""`MediaMemo`: the identity of processed media, computed once for each object that holds it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from kamera.identity import MediaIdentity


class MediaMemo:
    """By the object itself, never by a name that a caller could give: vLLM's cache hands out the same one."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], MediaIdentity]] = {}

    def get(self, owner: Any, make: Callable[[], MediaIdentity]) -> MediaIdentity:
        """The identity of what `owner` holds. It mustn't be written to while it lives."""
        known = self._known.get(id(owner))
        if known is not None and known[0]() is owner:
            return known[1]
        identity, key = make(), id(owner)
        self._known[key] = (weakref.ref(owner, lambda _: self._known.pop(key, None)), identity)
        return identity

    def __len__(self) -> int:
        return len(self._known)
