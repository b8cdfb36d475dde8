"""Runs on models: sections of the report, saved as they grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kamera.errors import ConfigError
from kamera.lab.evaluation import Progress
from kamera.lab.reproductions.judge import Section, failures, measured
from kamera.lab.runs.jobs import Work, measure_models
from kamera.lab.runs.section import begin
from kamera.lab.runs.settings import Settings
from kamera.lab.runs.worker import measure_model

Save = Callable[[str, Section], None]
"""Called with a section's name and what it holds by now, whenever a model of it is done."""


def run_lab(
    names: Sequence[str],
    folders: Sequence[Path],
    settings: Settings,
    *,
    command: str,
    num_jobs: int = 1,
    save: Save | None = None,
    progress: Progress | None = None,
    work: Work = measure_model,
) -> dict[str, Section]:
    """Name of each run -> its section. What several runs take from a model is measured once.

    Args:
        names: of the catalog.
        folders: checkpoint folders; a folder's name is the model's.
        command: what repeats it; `{name}` stands for a run's name.
        num_jobs: models that are measured at a time, each in a process of its own.

    A model that fails in a run says why in its place, and the rest is run.

    Raises:
        ConfigError: fewer than one item, no model, or two folders of one name; or a single run that fails on
            every model: nothing is saved then.
    """
    sections = {
        name: begin(
            folders,
            settings.num_items,
            command=command.replace("{name}", name),
            seed=settings.seed,
        )
        for name in names
    }
    order = [folder.name for folder in folders]
    for model, name, found in measure_models(
        folders, names, settings, num_jobs=num_jobs, progress=progress or _silent, work=work
    ):
        models = {**sections[name]["models"], model: found}
        sections[name]["models"] = {one: models[one] for one in order if one in models}
        if save is not None and (len(names) > 1 or measured(sections[name])):
            save(name, sections[name])
    if len(names) == 1 and not measured(sections[names[0]]):
        why = failures(sections[names[0]])
        raise ConfigError("; ".join(f"{model}: {reason}" for model, reason in why.items()))
    return sections


def _silent(*at: Any) -> None:
    del at
