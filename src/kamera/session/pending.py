"""Forming that waits: what a session has prefilled and not yet kept."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.session.former import Former
from kamera.shapes import Positions

logger = logging.getLogger("kamera.session")


@dataclass(frozen=True, eq=False)
class FormJob:
    """KV of a chunk as a request's forward cached it, to be kept.

    Attributes:
        chunk: whose KV it is.
        antecedents: what stood in front, in order; none for a chunk that leads the window.
        kv: as cached at `positions`.
        positions: where.
        context: names how what stood in front was made, when some of it was approximate.
        leading: the pinned prefix, when the patch behind it alone is wanted too.
    """

    chunk: Chunk
    antecedents: tuple[str, ...]
    kv: ChunkKV
    positions: Positions
    context: str = ""
    leading: Chunk | None = None

    def run(self, former: Former) -> None:
        """Keep the canonical, or the patch: a solo forward when there is no canonical yet."""
        if not self.antecedents:
            former.keep_canonical(self.chunk, self.kv, self.positions)
            return
        former.learn(self.chunk, self.antecedents, self.kv, self.positions, self.context)
        if self.leading is not None:
            former.learn_leading(self.chunk, self.leading)


@dataclass
class Pending:
    """A queue of jobs, the oldest first; with `deferred` off, each is run as it comes.

    A deferred job that fails is logged, counted and dropped: the chunk is formed again when it is next
    wanted. One that an interrupt stops stays.

    Attributes:
        max_jobs: with more, the oldest is run at once: memory is bounded, nothing is lost.
        num_failed: jobs that failed.
    """

    former: Former
    deferred: bool
    max_jobs: int
    num_failed: int = 0
    _jobs: deque[FormJob] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: FormJob) -> None:
        """Take a job in."""
        if not self.deferred:
            self._timed(job)
            return
        self._jobs.append(job)
        while len(self._jobs) > self.max_jobs:
            self._run(self._jobs[0])

    def run(self, count: int | None = None) -> int:
        """Run the oldest `count` jobs, or all; gives how many were run."""
        chosen = list(self._jobs)[:count]
        for job in chosen:
            self._run(job)
        return len(chosen)

    def settle(self, chunks: Collection[str]) -> None:
        """Run the jobs of these chunks, by digest: what is about to be planned may rest on them."""
        for job in [job for job in self._jobs if job.chunk.digest in chunks]:
            self._run(job)

    def _run(self, job: FormJob) -> None:
        try:
            self._timed(job)
        except Exception:
            self.num_failed += 1
            logger.exception("Kamera: chunk %s could not be kept", job.chunk.digest[:12])
        self._jobs.remove(job)

    def _timed(self, job: FormJob) -> None:
        clock = time.perf_counter()
        job.run(self.former)
        self.former.form_s += time.perf_counter() - clock
