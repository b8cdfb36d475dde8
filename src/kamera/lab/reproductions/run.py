"""Reproductions on models: sections of the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kamera.engines.hf import HFEngine
from kamera.lab.evaluation import Progress
from kamera.lab.reproductions.reproduction import Reproduction
from kamera.lab.reproductions.subject import Subject
from kamera.lab.runs.section import begin


def run_reproductions(
    chosen: Sequence[Reproduction],
    models: Sequence[Path],
    num_items: int,
    *,
    command: str,
    seed: int = 0,
    text_model: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, dict[str, Any]]:
    """Name of each -> its section of the report.

    Args:
        chosen: what is run.
        models: checkpoint folders; a folder's name is the model's. Each is loaded once.
        num_items: of a task's test split; probes take a quarter of them.
        command: what repeats it; `{name}` stands for a reproduction's name.
        text_model: a language model's checkpoint folder, for the control without media.

    Raises:
        ConfigError: fewer than one item, or two folders of one name.
    """
    sections = {
        one.name: {
            **begin(models, num_items, command=command.format(name=one.name), task="", seed=seed),
            "models": {},
        }
        for one in chosen
    }
    for folder in models:
        engine = HFEngine.from_pretrained(folder)
        subject = Subject(folder, engine, num_items, seed, text_model, progress)
        for number, one in enumerate(chosen):
            clock = time.perf_counter()
            found = one.run(subject)
            sections[one.name]["models"][folder.name] = {
                "dtype": engine.model_key.dtype,
                "digest": engine.model_key.digest,
                "seconds": round(time.perf_counter() - clock, 1),
                **found,
            }
            subject.tell(one.name, number + 1, len(chosen))
    return sections
