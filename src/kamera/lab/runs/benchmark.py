"""A public benchmark from a local folder, under arms, as a section of the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from kamera.engines.hf import HFEngine
from kamera.lab.benchmarks import Benchmark
from kamera.lab.benchmarks.evaluation import Limits, evaluate_benchmark
from kamera.lab.benchmarks.window import Shown
from kamera.lab.evaluation import Progress
from kamera.lab.reproductions.judge import Section
from kamera.lab.runs.section import begin
from kamera.lab.runs.settings import Settings

PREFIX = "benchmark "
"""Of such a section's name."""


def run_benchmark(
    benchmark: Benchmark,
    models: Sequence[Path],
    limits: Limits,
    settings: Settings,
    *,
    command: str,
    shown: Shown | None = None,
    progress: Progress | None = None,
) -> Section:
    """The section: for each model what `evaluate_benchmark` gives.

    Raises:
        ConfigError: as `evaluate_benchmark`; no model, or two folders of one name.
    """
    section = begin(models, limits.num_items, command=command, seed=settings.seed)
    for folder in models:
        clock = time.perf_counter()
        engine = HFEngine.from_pretrained(folder, dtype=settings.dtype, device=settings.device)
        found = evaluate_benchmark(engine, benchmark, limits, shown=shown, progress=progress)
        section["models"][folder.name] = {
            "dtype": engine.model_key.dtype,
            "digest": engine.model_key.digest,
            "seconds": round(time.perf_counter() - clock, 1),
            **found,
        }
    return section
