"""`ConnectorSettings`: what can be set of the connector, under `kv_connector_extra_config`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kamera.errors import ConfigError
from kamera.identity import check_tenant
from kamera.patch import PatchProfile, profile_of

FILLS = ("eager", "idle", "off")
GIB = 1 << 30


@dataclass(frozen=True)
class ConnectorSettings:
    """Validated when made.

    Attributes:
        store: the store's folder; None keeps chunks in memory alone, for an engine of one process.
        rank: patch rank m, the same in all layers, float32; clipped to a chunk's full rank.
        patch: what patches keep instead, in words: "bytes 6%, int8" (see `PatchProfile`). By default, with
            neither, `KNEE`.
        fill: `eager` or `idle`: keep what the engine prefills, and tell the companion which canonicals
            are wanted; it sends them at once, or while no client waits. `off`: read the store, add nothing.
        fill_per_minute: most requests of the companion in any minute.
        keep_survivors: a chunk whose head antecedents left keeps what it absorbed of them (paper section
            5). False prefills it again.
        tenant: whose data this is, named by the operator. A request's `cache_salt` divides it further.
        min_tokens: a load of fewer tokens isn't worth a trip outside the engine's step: they are prefilled.
        memory_bytes: cap of the memory tier, in each process.
        disk_bytes: cap of the folder.
        pending_bytes: cap of the KV that waits for its canonical, in each worker.
    """

    store: str | None = None
    rank: int | None = None
    patch: str | None = None
    fill: str = "idle"
    fill_per_minute: int = 600
    keep_survivors: bool = True
    tenant: str | None = None
    min_tokens: int = 16
    memory_bytes: int = GIB
    disk_bytes: int = 16 * GIB
    pending_bytes: int = GIB

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ConnectorSettings:
        """Settings from names and values.

        Raises:
            ConfigError: an unknown name, with the nearest known one; or a value that can't be right.
        """
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ConfigError(
                    f"Unknown setting {name!r} in kv_connector_extra_config: expected one of {known}{hint}"
                )
        return cls(**values)

    def __post_init__(self) -> None:
        counts = (
            "rank",
            "fill_per_minute",
            "min_tokens",
            "memory_bytes",
            "disk_bytes",
            "pending_bytes",
        )
        for name in counts:
            value = getattr(self, name)
            if name == "rank" and value is None:
                continue
            if type(value) is not int or value < 1:
                raise ConfigError(
                    f"Invalid {name}: expected a whole number of at least 1, got {value!r:.80}"
                )
        if self.patch is not None and not isinstance(self.patch, str):
            raise ConfigError(f"Invalid patch: expected words or null, got {self.patch!r:.80}")
        profile_of(self.rank, self.patch)
        if self.fill not in FILLS:
            raise ConfigError(
                f"Invalid fill: expected one of {', '.join(FILLS)}, got {self.fill!r:.80}"
            )
        if type(self.keep_survivors) is not bool:
            raise ConfigError(
                f"Invalid keep_survivors: expected true or false, got {self.keep_survivors!r:.80}"
            )
        if self.store is not None and (type(self.store) is not str or not self.store):
            raise ConfigError(f"Invalid store: expected a folder or null, got {self.store!r:.80}")
        check_tenant(self.tenant)

    @property
    def profile(self) -> PatchProfile:
        """What patches keep."""
        return profile_of(self.rank, self.patch)

    @property
    def captures(self) -> bool:
        """Whether what the engine prefills is kept."""
        return self.fill != "off"
