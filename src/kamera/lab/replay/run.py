"""replay(): frames through a window, every arm side by side, to `report.json` and `replay.png`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kamera
from kamera.arms import Arm, ArmRequest
from kamera.chunk import Chunk
from kamera.engines.contract import Engine
from kamera.errors import ConfigError
from kamera.lab.environment import environment
from kamera.lab.replay.frames import Frames, load_frames
from kamera.lab.replay.plot import draw, require_matplotlib
from kamera.lab.replay.report import Preparation, ReplayReport, StepReport, plain
from kamera.lab.replay.serving import make_arms, prepare, serve, warm_up
from kamera.lab.replay.settings import ReplaySettings
from kamera.lab.replay.steps import Step, steps_of
from kamera.session import Session, SessionSettings
from kamera.store import open_store

Progress = Callable[[str, int, int], None]
"""Called with what is running, how many steps are done, and how many there are."""

REPORT, PLOT = "report.json", "replay.png"


def replay(settings: ReplaySettings, *, progress: Progress | None = None) -> dict[str, Any]:
    """Replay a folder of images or a video; gives what `report.json` holds.

    Input is checked before the model is loaded. TTFT starts when the images are preprocessed, for every
    arm.

    Raises:
        ConfigError: a folder, an image, the model's folder, the store or `out` can't be used.
        UnsupportedModelError: the checkpoint isn't of a family that is served.
    """
    require_matplotlib()
    frames = load_frames(
        settings.source, max_frames=settings.max_frames, skip_bad=settings.skip_bad
    )
    make_writable(settings.out)
    from kamera.engines.hf import HFEngine

    folder = kamera.packaged_model() if settings.model is None else settings.model
    engine = HFEngine.from_pretrained(folder)
    chosen = SessionSettings(rank=settings.rank)
    with Session(engine, open_store(settings.store), chosen) as session:
        report = _run(session, frames, settings, progress or _silent)
    draw(report, settings.out / PLOT)
    report.write(settings.out / REPORT)
    return report.as_dict()


def _run(
    session: Session, frames: Frames, settings: ReplaySettings, progress: Progress
) -> ReplayReport:
    engine = session.engine
    num_entries_before = session.store.stats().num_entries
    prefix, tail = engine.frame(settings.question)
    chunks = [engine.image_chunk(frame.image) for frame in frames.frames]
    steps = steps_of(len(chunks), settings)
    requests = [ArmRequest(prefix, tuple(chunks[i] for i in s.window), tail) for s in steps]
    progress("warm up", 0, len(steps))
    warm_up(engine, max(requests, key=lambda request: request.tail_start), settings.rank)
    done, preparation = _serve_all(session, steps, requests, progress)
    notes = [*frames.notes, *_notes(settings, chunks, steps)]
    formed = done[-1].arms["kamera"].lanes.count("form") if preparation else 0
    if formed:
        notes.append(
            f"The reorder found no patch for {formed} chunks: not every ordering was prepared."
        )
    if num_entries_before:
        notes.append(f"The store held {num_entries_before} entries before the first step.")
    held = {
        "num_entries_before": num_entries_before,
        "misses": dict(session.library.misses),
        "stats": plain(session.store.stats()),
    }
    return ReplayReport(
        _model_of(engine),
        environment(),
        plain(asdict(settings)),
        _source(frames, chunks),
        done,
        preparation,
        held,
        tuple(notes),
        {"report": str(settings.out / REPORT), "plot": str(settings.out / PLOT)},
    )


def _serve_all(
    session: Session, steps: Sequence[Step], requests: Sequence[ArmRequest], progress: Progress
) -> tuple[tuple[StepReport, ...], Preparation | None]:
    arms: Sequence[Arm] = make_arms(session)
    done: list[StepReport] = []
    preparation = None
    for step, request in zip(steps, requests, strict=True):
        if step.label == "reorder":
            progress("prepare the reorder", len(done), len(steps))
            preparation = prepare(session, request)
        progress(step.name, len(done), len(steps))
        sizes = tuple(chunk.num_tokens for chunk in request.cached)
        done.append(
            StepReport(
                step.name,
                step.label,
                step.window,
                sizes,
                request.tail.num_tokens,
                serve(arms, request),
            )
        )
    progress("done", len(done), len(steps))
    return tuple(done), preparation


def make_writable(out: Path) -> None:
    """Make the folder and prove, before any work, that the results can be written into it."""
    probe = out / ".kamera-replay"
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"Can't write into {out}: expected a folder for the results, got: {error}"
        ) from error


def _model_of(engine: Engine) -> dict[str, Any]:
    key = engine.model_key
    return {"model_type": key.model_type, "dtype": key.dtype, "digest": key.digest}


def _source(frames: Frames, chunks: Sequence[Chunk]) -> dict[str, Any]:
    return {
        "frames": [frame.name for frame in frames.frames],
        "num_tokens": [chunk.num_tokens for chunk in chunks],
        "num_distinct": len({chunk.digest for chunk in chunks}),
        "skipped": list(frames.skipped),
    }


def _notes(settings: ReplaySettings, chunks: Sequence[Chunk], steps: Sequence[Step]) -> list[str]:
    notes = []
    num_frames, num_distinct = len(chunks), len({chunk.digest for chunk in chunks})
    labels = {step.label for step in steps}
    if settings.window > num_frames:
        notes.append(
            f"The window ({settings.window}) is larger than the number of frames ({num_frames})."
        )
    if settings.look_back_every and "look back" not in labels:
        notes.append("No look-back: no frame had left the window when one was due.")
    if settings.reorder and "reorder" not in labels:
        notes.append("No reorder: the last window holds a single frame.")
    if num_distinct < num_frames:
        notes.append(f"{num_frames - num_distinct} of {num_frames} frames repeat an earlier one.")
    return notes


def _silent(label: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""
