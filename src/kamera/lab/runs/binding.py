"""The binding task under every arm, model by model: what reuse loses, who gives it back, for what bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kamera.arms import ROWS, Arm, Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.evaluation import (
    Progress,
    Tally,
    against,
    best_token_arm,
    compare_arms,
    with_intervals,
)
from kamera.lab.runs.section import begin
from kamera.lab.tasks import TASKS

TASK = "binding"
RANKS = (1, 4, 16)
"""Of the patches that are set against the best token arm of at most the same bytes."""
NUM_LEARNED = 8
"""Train items that the arms which learn see."""

Make = Callable[[Workbench], Mapping[str, Sequence[Arm]]]
"""Arms by kind, re-prefill first and blind among them."""


def run_binding(
    models: Sequence[Path],
    num_items: int,
    *,
    command: str,
    seed: int = 0,
    make: Make | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The report's section.

    Args:
        models: checkpoint folders; a folder's name is the model's.
        num_items: of the test split.
        command: what repeats it.
        make: the arms; by default all that are compared.

    Raises:
        ConfigError: fewer than one item, or two folders of one name.
    """
    section = begin(models, num_items, command=command, task=TASK, seed=seed)
    found = {
        folder.name: _model(folder, num_items, seed, make or arms_by_kind, progress)
        for folder in models
    }
    return {**section, "num_learned": NUM_LEARNED, "models": found}


def arms_by_kind(bench: Workbench) -> dict[str, list[Arm]]:
    """Every arm that is compared, those of one kind together; the references come first."""
    found: dict[str, list[Arm]] = {}
    for row in ROWS:
        found.setdefault(row.kind, []).extend(row.make(bench))
    return found


def _model(
    folder: Path, num_items: int, seed: int, make: Make, progress: Progress | None
) -> dict[str, Any]:
    engine = HFEngine.from_pretrained(folder)
    kinds: dict[str, str] = {}

    def arms(bench: Workbench) -> list[Arm]:
        made = make(bench)
        kinds.update({arm.name: kind for kind, group in made.items() for arm in group})
        return [arm for group in made.values() for arm in group]

    def tell(task: str, done: int, total: int) -> None:
        if progress is not None:
            progress(f"{task}, {folder.name}", done, total)

    clock = time.perf_counter()
    tallies = compare_arms(
        engine,
        TASKS[TASK],
        num_items,
        make=arms,
        num_learned=NUM_LEARNED,
        seed=seed,
        progress=tell,
    )
    rows = with_intervals(tallies)
    return {
        "dtype": engine.model_key.dtype,
        "digest": engine.model_key.digest,
        "seconds": round(time.perf_counter() - clock, 1),
        "arms": {name: {"kind": kinds[name], **row} for name, row in rows.items()},
        "paired": [against_best_tokens(tallies, rank) for rank in RANKS],
        "items": {name: _series(tally) for name, tally in tallies.items()},
    }


def against_best_tokens(tallies: dict[str, Tally], rank: int) -> dict[str, Any]:
    """A rank-m patch minus the token arm of highest η that keeps no more bytes.

    `other` is None where no token arm is that small; then there is no comparison.
    """
    arm = f"patch {rank}"
    rival = best_token_arm(tallies, arm)
    if rival is None:
        return {"rank": rank, "arm": arm, "other": None}
    return {"rank": rank, **against(tallies, arm, rival)}


def _series(tally: Tally) -> dict[str, list[Any]]:
    """What intervals are made from, in the order of the items."""
    return {
        "kl": tally.kls,
        "answer": tally.answers,
        "correct": [int(right) for right in tally.correct],
    }
