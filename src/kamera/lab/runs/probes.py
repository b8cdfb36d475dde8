"""The quick probes for each model: how thin, how deep and how spread what reuse loses is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.evaluation import Progress
from kamera.lab.probes.case import Case, cases_of
from kamera.lab.probes.depth_profile import probe_depth_profile
from kamera.lab.probes.energy import probe_energy
from kamera.lab.probes.rank_sweep import probe_rank_sweep
from kamera.lab.probes.selector_recall import probe_selector_recall
from kamera.lab.probes.token_diffuseness import probe_token_diffuseness
from kamera.lab.runs.section import begin
from kamera.lab.tasks import TASKS

TASK = "binding"
Probe = Callable[[Iterator[Case]], Any]
"""Cases -> a dataclass, or one for each channel."""

PROBES: dict[str, Probe] = {
    "rank_sweep": probe_rank_sweep,
    "energy": probe_energy,
    "depth_profile": probe_depth_profile,
    "token_diffuseness": probe_token_diffuseness,
    "selector_recall": probe_selector_recall,
}


def run_probes(
    models: Sequence[Path],
    num_items: int,
    *,
    command: str,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The report's section; figures are means over the items.

    Args:
        models: checkpoint folders; a folder's name is the model's.
        num_items: of the test split; B is an item's target frame.
        command: what repeats it.

    Raises:
        ConfigError: fewer than one item, or two folders of one name.
    """
    section = begin(models, num_items, command=command, task=TASK, seed=seed)
    found = {folder.name: _model(folder, num_items, seed, progress) for folder in models}
    return {**section, "models": found}


def _model(folder: Path, num_items: int, seed: int, progress: Progress | None) -> dict[str, Any]:
    clock = time.perf_counter()
    engine = HFEngine.from_pretrained(folder)
    bench = Workbench(engine)
    items = TASKS[TASK].items(num_items, split="test", seed=seed)
    figures = {}
    for number, (name, probe) in enumerate(PROBES.items()):
        figures[name] = _plain(probe(cases_of(bench, items)))
        bench.clear()
        if progress is not None:
            progress(f"probes, {folder.name}", number + 1, len(PROBES))
    return {
        "dtype": engine.model_key.dtype,
        "digest": engine.model_key.digest,
        "seconds": round(time.perf_counter() - clock, 1),
        "probes": figures,
    }


def _plain(found: Any) -> dict[str, Any]:
    if isinstance(found, Mapping):
        return {channel: asdict(figures) for channel, figures in found.items()}
    return asdict(found)
