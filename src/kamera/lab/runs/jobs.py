"""Models in processes of their own: one process a model, at most so many at a time."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from kamera.lab.runs.settings import Settings

Progress = Callable[[str, int, int], None]
Work = Callable[[Path, Sequence[str], Settings, Progress], Iterator[tuple[str, dict[str, Any]]]]
"""As `measure_model`; a function of a module, as another process looks it up by name."""
Found = tuple[str, str, dict[str, Any]]
"""Model, run, figures."""


@dataclass
class _Job:
    folder: Path
    process: BaseProcess
    left: list[str]
    """Runs that it hasn't answered yet."""


def measure_models(
    folders: Sequence[Path],
    names: Sequence[str],
    settings: Settings,
    *,
    num_jobs: int,
    progress: Progress,
    work: Work,
) -> Iterator[Found]:
    """Figures as they are done, of several models in turn; with one job nothing is started.

    A process that dies leaves a failure for each run that it hadn't done.
    """
    if min(num_jobs, len(folders)) <= 1:
        for folder in folders:
            for name, found in work(folder, names, settings, progress):
                yield folder.name, name, found
        return
    waiting, running = list(folders), dict[Connection, _Job]()
    try:
        while waiting or running:
            while waiting and len(running) < num_jobs:
                connection, job = _start(work, waiting.pop(0), names, settings)
                running[connection] = job
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                yield from _read(ready, running, progress)
    finally:
        for job in running.values():
            job.process.terminate()


def _start(
    work: Work, folder: Path, names: Sequence[str], settings: Settings
) -> tuple[Connection, _Job]:
    context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_child, args=(work, folder, list(names), settings, sender), daemon=True
    )
    process.start()
    sender.close()  # the child's alone: its death is then the pipe's end
    return receiver, _Job(folder, process, list(names))


def _read(
    connection: Connection, running: dict[Connection, _Job], progress: Progress
) -> Iterator[Found]:
    job = running[connection]
    try:
        kind, *what = connection.recv()
    except EOFError:
        del running[connection]
        connection.close()
        job.process.join()
        why = f"its process ended with exit code {job.process.exitcode}"
        yield from ((job.folder.name, name, {"failed": why}) for name in job.left)
        return
    if kind == "progress":
        progress(*what)
    else:
        name, found = what
        job.left.remove(name)
        yield job.folder.name, name, found


def _child(
    work: Work, folder: Path, names: list[str], settings: Settings, sender: Connection
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it

    def progress(*at: Any) -> None:
        sender.send(("progress", *at))

    for name, found in work(folder, names, settings, progress):
        sender.send(("found", name, found))
