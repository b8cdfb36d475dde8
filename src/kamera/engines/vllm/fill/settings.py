"""Policy, budget and bounds of the companion."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from kamera.engines.vllm.settings import ConnectorSettings
from kamera.errors import ConfigError

FillPolicy = Literal["eager", "idle", "off"]
"""`eager`: as soon as an image was shown; `idle`: only while no client's request is in flight; `off`."""

MIB = 1024 * 1024


@dataclass(frozen=True)
class FillSettings:
    """How the companion behaves.

    Attributes:
        policy: when solo requests are sent.
        store: the store's folder, whose `wanted` folder is read; None where there is none.
        per_minute: most solo requests in any 60 s. They go one at a time in any case.
        max_body_bytes: a longer request body isn't looked at.
        max_waiting_bytes: of bodies that wait to be looked at, beyond which the oldest are dropped; and of
            sources that wait for their solo request, beyond which new ones are dropped.
        max_waiting: sources that wait, likewise.
        max_kept_bytes: images that are kept, so that a canonical that was evicted can be made again.
        solo_timeout_s: a solo request that takes longer is given up.
        retry_s: a chunk that is still wanted is tried again after so long, and an image whose solo request
            failed counts as new.
        max_tries: tries of one wanted chunk.
        poll_s: how often the spool is read.
    """

    policy: FillPolicy = "idle"
    store: Path | None = None
    per_minute: int = 600
    max_body_bytes: int = 64 * MIB
    max_waiting_bytes: int = 256 * MIB
    max_waiting: int = 4096
    max_kept_bytes: int = 256 * MIB
    solo_timeout_s: float = 300.0
    retry_s: float = 60.0
    max_tries: int = 3
    poll_s: float = 0.5

    def __post_init__(self) -> None:
        for name in ("per_minute", "max_body_bytes", "max_waiting", "max_tries"):
            if getattr(self, name) < 1:
                raise ConfigError(f"Invalid {name}: expected at least 1, got {getattr(self, name)}")
        for name in ("solo_timeout_s", "retry_s", "poll_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"Invalid {name}: expected above 0, got {getattr(self, name)}")

    @classmethod
    def of(cls, settings: ConnectorSettings) -> FillSettings:
        """The companion's part of the connector's settings."""
        store = None if settings.store is None else Path(settings.store)
        return cls(cast(FillPolicy, settings.fill), store, per_minute=settings.fill_per_minute)
