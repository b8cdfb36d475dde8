"""Reproductions on models, one after another, an error being raised: for scripts and tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kamera.lab.evaluation import Progress
from kamera.lab.reproductions.judge import Section
from kamera.lab.reproductions.reproduction import Reproduction
from kamera.lab.runs.section import begin
from kamera.lab.runs.settings import Settings
from kamera.lab.runs.worker import measure, subject_of


def run_reproductions(
    chosen: Sequence[Reproduction],
    models: Sequence[Path],
    num_items: int,
    *,
    command: str,
    seed: int = 0,
    text_model: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Section]:
    """Name of each -> its section of the report.

    Args:
        chosen: what is run.
        models: checkpoint folders; a folder's name is the model's. Each is loaded once.
        num_items: of a task's test split; probes take a quarter of them.
        command: what repeats it; `{name}` stands for a reproduction's name.
        text_model: a language model's checkpoint folder, for the control without media.

    Raises:
        ConfigError: fewer than one item, no model, or two folders of one name.
    """
    sections = {
        one.name: begin(models, num_items, command=command.replace("{name}", one.name), seed=seed)
        for one in chosen
    }
    settings = Settings(num_items, seed, text_model=text_model)
    for folder in models:
        subject = subject_of(folder, settings, progress)
        for number, one in enumerate(chosen):
            sections[one.name]["models"][folder.name] = measure(subject, one)
            subject.tell(one.name, number + 1, len(chosen))
    return sections
