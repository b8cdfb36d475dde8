"""`SessionSettings`: what can be set of a session."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kamera.errors import ConfigError
from kamera.patch import PatchProfile, profile_of

FORMING = ("at once", "deferred")


@dataclass(frozen=True)
class SessionSettings:
    """Validated when made.

    Attributes:
        capacity: chunks that the window holds, the pinned prefix apart; None for no bound.
        rank: patch rank m, the same in all layers, float32; clipped to a chunk's full rank.
        patch: what patches keep instead, in words: "bytes 6%, int8" (see `PatchProfile`). By default, with
            neither, `KNEE`.
        form_leading: when a chunk is formed behind others, also form its patch behind the prefix
            alone (one short forward), so that it leads the window exactly once the others have left.
        keep_survivors: a chunk whose head antecedents left keeps what it absorbed of them and is
            relocated for free (paper section 5). False forms it again behind what is left: right where the
            window must forget, at the cost of a prefill.
        max_evicted: chunks that left and can be recalled; those that left first are forgotten, with their
            pixels.
        max_orderings: orderings that an orbit patch is averaged over; all of them up to this many,
            a seeded sample above (paper section 5: all for K <= 4, 24 of 720 for K = 6).
        forming: "at once": a chunk that was prefilled is kept before its verb returns. "deferred": the verb
            returns first; `Session.form_pending` forms when nobody waits, as do a window that needs it and
            `close`. Windows are served alike.
        max_pending: chunks that may wait; with more, a verb forms the oldest. Each holds its KV.
        tenant: whose data this is, named by the operator; part of every key.
    """

    capacity: int | None = None
    rank: int | None = None
    patch: str | None = None
    form_leading: bool = True
    keep_survivors: bool = True
    max_orderings: int = 24
    max_evicted: int = 64
    forming: str = "at once"
    max_pending: int = 64
    tenant: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> SessionSettings:
        """Settings from names and values.

        Raises:
            ConfigError: an unknown name, with the nearest known one; or a value that can't be right.
        """
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ConfigError(f"Unknown setting {name!r}: expected one of {known}{hint}")
        return cls(**values)

    def __post_init__(self) -> None:
        for name in ("capacity", "rank", "max_orderings", "max_evicted", "max_pending"):
            value = getattr(self, name)
            if type(value) is not int and not (name in ("capacity", "rank") and value is None):
                raise ConfigError(f"Invalid {name}: expected a whole number, got {value!r:.80}")
        for name in ("form_leading", "keep_survivors"):
            if type(getattr(self, name)) is not bool:
                raise ConfigError(
                    f"Invalid {name}: expected True or False, got {getattr(self, name)!r:.80}"
                )
        if self.tenant is not None and not isinstance(self.tenant, str):
            raise ConfigError(f"Invalid tenant: expected text or None, got {self.tenant!r:.80}")
        if self.capacity is not None and self.capacity < 1:
            raise ConfigError(
                f"Invalid window capacity: expected at least 1 chunk, or None for no bound, "
                f"got {self.capacity}"
            )
        if self.patch is not None and not isinstance(self.patch, str):
            raise ConfigError(f"Invalid patch: expected words or None, got {self.patch!r:.80}")
        profile_of(self.rank, self.patch)
        for name in ("max_orderings", "max_pending"):
            if getattr(self, name) < 1:
                raise ConfigError(f"Invalid {name}: expected at least 1, got {getattr(self, name)}")
        if self.max_evicted < 0:
            raise ConfigError(f"Invalid max_evicted: expected at least 0, got {self.max_evicted}")
        if self.forming not in FORMING:
            raise ConfigError(
                f"Invalid forming: expected one of {', '.join(FORMING)}, got {self.forming!r:.80}"
            )

    @property
    def profile(self) -> PatchProfile:
        """What patches keep."""
        return profile_of(self.rank, self.patch)
