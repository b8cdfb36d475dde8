"""The demo: the tasks under every arm, the window operations, and a replay on real pictures.

Writes `report.json`, `tasks.png` and the replay's own files into one folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kamera
from kamera.errors import ConfigError
from kamera.lab.environment import environment
from kamera.lab.evaluation import Progress, evaluate_task, request_of
from kamera.lab.pictures import write_views
from kamera.lab.probes.operator import probe_operator
from kamera.lab.probes.windows import probe_orbit, probe_recall, probe_survivor
from kamera.lab.replay import ReplaySettings
from kamera.lab.replay.run import make_writable, replay
from kamera.lab.task_plot import draw_tasks
from kamera.lab.tasks import TASKS
from kamera.session import Session

REPORT_VERSION = 1


def run(
    out: Path,
    num_items: int = 256,
    model: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Everything; gives the report that `report.json` holds.

    Raises:
        ConfigError: fewer than one item, no checkpoint, or a folder that can't be written.
    """
    if num_items < 1:
        raise ConfigError(f"Invalid number of items: expected at least 1, got {num_items}")
    make_writable(out)
    folder = model or kamera.packaged_model()
    report: dict[str, Any] = {
        "version": REPORT_VERSION,
        "model": folder.name,
        "environment": environment(),
    }
    with Session.open(folder) as session:
        report["tasks"] = {
            name: evaluate_task(session, task, num_items, progress=progress)
            for name, task in TASKS.items()
        }
        report["operator"] = operator_figures(session, report["tasks"])
        report["windows"] = window_figures(session, max(1, num_items // 4), progress)
    report["replay"] = replay_figures(out / "replay", model, progress)
    draw_tasks(report["tasks"], out / "tasks.png")
    (out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    return report


def operator_figures(session: Session, tasks: dict[str, Any]) -> dict[str, Any]:
    """Exactness: relocation on a real frame, and full rank over all items of all tasks."""
    item = TASKS["readout"].items(1)[0]
    chunk = request_of(session.engine, item).chunks[-1]  # type: ignore[arg-type]
    figures = probe_operator(session.engine, chunk)
    figures["full_rank_kl_max"] = max(arms["patch full"]["kl_max"] for arms in tasks.values())
    figures["full_rank_kl_bound"] = 1e-6
    return figures


def window_figures(session: Session, num_items: int, progress: Progress | None) -> dict[str, Any]:
    """Orbit, survivor and recall, beside the paper's figures."""
    engine = session.engine
    return {
        "orbit": probe_orbit(engine, num_items, progress=progress),  # type: ignore[arg-type]
        "survivor": probe_survivor(engine, num_items, progress=progress),  # type: ignore[arg-type]
        "recall": probe_recall(engine, num_items, progress=progress),  # type: ignore[arg-type]
    }


def replay_figures(out: Path, model: Path | None, progress: Progress | None) -> dict[str, Any]:
    """A window that slides over views of two real photographs."""
    frames = write_views(out / "frames")
    return replay(ReplaySettings(source=frames, model=model, out=out), progress=progress)
