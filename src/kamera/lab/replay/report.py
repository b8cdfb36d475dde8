"""What a replay records, its totals, and `report.json`. Versioned: a reader checks `schema_version`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from kamera.errors import ConfigError

SCHEMA = "kamera.replay"
SCHEMA_VERSION = 1
REFERENCE = "re-prefill"
YARDSTICK = "prefix cache"


@dataclass(frozen=True)
class ArmStep:
    """What one arm did in one step.

    Attributes:
        num_prefilled: tokens of the window that a forward ran over on the request's path.
        num_formed: tokens that were run over off the path.
        num_vision_runs: images that the vision tower ran over.
        ttft_s: from the request, its images preprocessed, to the first token's logits.
        kl: KL(re-prefill || arm) of that token, nats.
        answer: the token that it chose.
        same_answer: whether re-prefill chose it too.
        lanes: how each chunk was served, the prefix first; empty where the arm has but one way.
    """

    num_prefilled: int
    num_formed: int
    num_vision_runs: int
    ttft_s: float
    kl: float
    answer: int
    same_answer: bool
    lanes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepReport:
    """One step: the window as frame indices, its sizes in tokens (the prefix first), and every arm."""

    name: str
    label: str
    window: tuple[int, ...]
    chunk_tokens: tuple[int, ...]
    num_tail: int
    arms: dict[str, ArmStep]


@dataclass(frozen=True)
class Preparation:
    """Orbit patches formed off the path before the reorder (`Session.prepare_reorders`)."""

    num_orderings: int
    num_formed: int
    form_s: float


@dataclass(frozen=True)
class Totals:
    """One arm over all steps. `num_formed` holds the preparation too."""

    num_prefilled: int
    prefilled_vs_prefix_cache: float | None
    """This arm's prefilled tokens over the prefix cache's; None where that has none."""
    num_formed: int
    num_vision_runs: int
    median_ttft_s: float
    mean_kl: float
    num_same_answers: int
    num_steps: int


@dataclass(frozen=True)
class ReplayReport:
    """A replay. `store` holds the library's misses and the store's counters."""

    model: dict[str, Any]
    environment: dict[str, Any]
    settings: dict[str, Any]
    source: dict[str, Any]
    steps: tuple[StepReport, ...]
    preparation: Preparation | None
    store: dict[str, Any]
    notes: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms' names, in the order in which they were served."""
        return tuple(self.steps[0].arms)

    def totals(self) -> dict[str, Totals]:
        """Per arm, over all steps."""
        return {arm: self._total(arm) for arm in self.arms}

    def _total(self, arm: str) -> Totals:
        done = [step.arms[arm] for step in self.steps]
        num_prefilled = sum(one.num_prefilled for one in done)
        yardstick = sum(step.arms[YARDSTICK].num_prefilled for step in self.steps)
        formed = sum(one.num_formed for one in done)
        if arm == "kamera" and self.preparation is not None:
            formed += self.preparation.num_formed
        return Totals(
            num_prefilled,
            num_prefilled / yardstick if yardstick else None,
            formed,
            sum(one.num_vision_runs for one in done),
            statistics.median(one.ttft_s for one in done),
            statistics.fmean(one.kl for one in done),
            sum(one.same_answer for one in done),
            len(done),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data, the schema's name and version first."""
        body: dict[str, Any] = plain(self)
        totals = {arm: asdict(total) for arm, total in self.totals().items()}
        return {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **body, "totals": totals}

    def write(self, path: Path) -> None:
        """As JSON.

        Raises:
            ConfigError: the file can't be written.
        """
        text = json.dumps(self.as_dict(), indent=2, allow_nan=False)
        try:
            path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"Can't write the report {path}: {error}") from error


def plain(value: Any) -> Any:
    """Dataclasses, enums, tuples and paths as JSON's own types."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
