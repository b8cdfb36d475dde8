"""The half beside the model: composes loads into the engine's blocks, keeps what the engine prefilled."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import accumulate

import torch

from kamera import kernels
from kamera.channels import ChunkKV
from kamera.engines.vllm.metadata import CaptureJob, Jobs, LoadJob, Owner, Piece
from kamera.engines.vllm.pool import Pool
from kamera.engines.vllm.quiet import Quiet
from kamera.engines.vllm.settings import ConnectorSettings
from kamera.engines.vllm.sums import Sums
from kamera.engines.vllm.waiting import Conditioned, Waiting
from kamera.library import Library
from kamera.rope import Rope
from kamera.store import Miss, Store

logger = logging.getLogger("vllm.kamera")

LOAD_DEADLINE_S = 20.0
"""A load that hasn't begun by then, behind others that a slow disk holds up, is prefilled instead."""
MAX_LIBRARIES = 1024
"""Libraries that are kept at hand, one a model and tenant. They hold nothing but counts."""


class WorkerHalf:
    """One worker's. Loads run in one thread, forming in another; the engine's thread only copies.

    Forming waits for a moment without steps, unless `fill` is `eager`: on few cores it would slow the next.
    """

    def __init__(
        self, settings: ConnectorSettings, spec: Rope, pool: Pool, store: Store, shard: int
    ) -> None:
        self.settings, self.spec, self.pool, self.store = settings, spec, pool, store
        self.shard = shard
        self._stats = Sums()
        self._lock = threading.Lock()
        self._loader = ThreadPoolExecutor(1, "kamera-load")
        self._former = ThreadPoolExecutor(1, "kamera-form")
        self._quiet = Quiet()
        self._running: dict[str, tuple[LoadJob, Future[bool], float]] = {}
        self._failed_blocks: set[int] = set()
        self._failed: set[str] = set()
        self._waiting = Waiting(settings.pending_bytes)
        self._num_unformed_bytes = 0
        self._libraries: dict[tuple[str, str | None], Library] = {}
        kernels.warm_up(pool.dtype)

    def begin_step(self) -> None:
        """The engine is about to run the model; `finished` ends the step."""
        self._quiet.begin_step()

    def start(self, jobs: Jobs) -> None:
        """Begin this step's loads."""
        for job in jobs.loads:
            future = self._loader.submit(self._load, job)
            self._running[job.request] = (job, future, time.monotonic() + LOAD_DEADLINE_S)
        if jobs.forget:
            self._former.submit(self._waiting.clear)

    def capture(self, jobs: Jobs) -> None:
        """Copy the KV of this step's chunks, after the forward; what is made of it is made elsewhere."""
        now = time.monotonic()
        for job in jobs.captures:
            if self._num_unformed_bytes >= self.settings.pending_bytes:
                self._count("pending_dropped")  # forming doesn't keep up: copies would pile up
                continue
            chunk = job.chunks[self.shard]
            end = job.begin + chunk.num_tokens
            kv = self.pool.read(self.pool.slots(job.blocks, job.begin, end))
            self._count("chunks_captured")
            self._count_unformed(kv.num_bytes)
            self._former.submit(self._guarded, self._keep, job, kv, self._mark(), now)

    def finished(self) -> set[str]:
        """The step is over. Requests whose load is, too, since the last call; `failed_blocks` tells which
        weren't filled.
        """
        self._quiet.end_step()
        now = time.monotonic()
        for _, future, deadline in self._running.values():
            if now > deadline:
                future.cancel()  # one that runs can't be: it still writes
        done = {name for name, (_, future, _) in self._running.items() if future.done()}
        for name in done:
            job, future, _ = self._running.pop(name)
            if not _succeeded(future):
                self._failed.add(name)
                # Those in front are shared: vLLM would take them from whoever else reads them.
                self._failed_blocks |= set(job.blocks[job.skip // self.pool.block_size :])
                self._count("loads_failed")
        return done

    def failed_blocks(self) -> set[int]:
        """Blocks of loads that failed since the last call."""
        blocks, self._failed_blocks = self._failed_blocks, set()
        return blocks

    def failed(self) -> set[str]:
        """Requests whose load failed since the last call."""
        failed, self._failed = self._failed, set()
        return failed

    def taken(self) -> dict[str, int | float]:
        """Counts since the last call."""
        with self._lock:
            return self._stats.take()

    def settle(self) -> None:
        """Wait until all that was begun is done. For tests and at the end."""
        self._quiet.stop()
        self._former.submit(lambda: None).result()
        self._loader.submit(lambda: None).result()
        self._quiet.resume()

    def close(self) -> None:
        """End the threads, what is begun first."""
        self._quiet.stop()
        self._loader.shutdown()
        self._former.shutdown()

    def _load(self, job: LoadJob) -> bool:
        """Compose a job's pieces into its blocks, from token `skip` on. False when the store has a hole."""
        clock, num_bytes = time.perf_counter(), 0
        ends = list(accumulate(piece.chunks[self.shard].num_tokens for piece in job.pieces))
        loaded = [(p, end) for p, end in zip(job.pieces, ends, strict=True) if end > job.skip]
        wanted = [(piece.chunks[self.shard], piece.patches[self.shard]) for piece, _ in loaded]
        with self._library(job.owner).reading_ahead(wanted) as library:
            for piece, end in loaded:
                placed = self._placed(library, piece)
                if isinstance(placed, Miss):
                    logger.warning("Kamera: request %s: %s", job.request, placed.detail)
                    return False
                begin = end - placed.num_tokens
                first = max(job.skip - begin, 0)
                part = placed.slice_tokens(first, placed.num_tokens)
                self.pool.write(part, self.pool.slots(job.blocks, begin + first, end))
                num_bytes += part.num_bytes
        self._settle_device()
        self._count("loads")
        self._count("bytes_loaded", num_bytes)
        self._count("apply_seconds", time.perf_counter() - clock)
        return True

    def _placed(self, library: Library, piece: Piece) -> ChunkKV | Miss:
        """R(p) (canonical + U Vᵀ), in the cache dtype: one rounding."""
        chunk = piece.chunks[self.shard]
        canonical = library.canonical(chunk)
        if isinstance(canonical, Miss):
            return canonical
        patch = None
        if (record := piece.patches[self.shard]) is not None:
            found = library.patch(chunk, record)
            if isinstance(found, Miss):
                return found
            patch = found
        positions = chunk.layout.at(piece.start).to(self.pool.device)
        return kernels.place(canonical, patch, positions, self.spec, self.pool.dtype)

    def _keep(self, job: CaptureJob, kv: ChunkKV) -> None:
        """A chunk's canonical, or its patch once there is a canonical."""
        clock = time.perf_counter()
        library, chunk = self._library(job.owner), job.chunks[self.shard]
        positions = chunk.layout.at(job.start).to(self.pool.device)
        if not job.antecedents[self.shard]:
            library.keep_canonical(chunk, kv.to_canonical(positions, self.spec))
            self._count("canonicals_kept")
            for waited in self._waiting.take(chunk.digest):
                self._learn(waited)
        else:
            wide = kv.to_canonical(positions, self.spec, torch.float32)
            behind = job.antecedents[self.shard], job.contexts[self.shard]
            self._learn(Conditioned(library, chunk, *behind, wide))
        self._count("form_seconds", time.perf_counter() - clock)

    def _learn(self, conditioned: Conditioned) -> None:
        canonical = conditioned.library.canonical(conditioned.chunk)
        if isinstance(canonical, Miss):
            # On the host: what waits mustn't take the accelerator's memory, which vLLM has counted.
            waiting = replace(conditioned, kv=_on(conditioned.kv, torch.device("cpu")))
            self._count("pending_dropped", self._waiting.add(waiting))
            return
        conditioned.library.learn(
            conditioned.chunk,
            conditioned.antecedents,
            _on(conditioned.kv, self.pool.device),
            canonical,
            conditioned.context,
        )
        self._count("patches_formed")

    def _guarded(
        self,
        work: Callable[[CaptureJob, ChunkKV], None],
        job: CaptureJob,
        kv: ChunkKV,
        copied: torch.cuda.Event | None,
        captured: float,
    ) -> None:
        """Keeping is a courtesy: what goes wrong there is said and counted, and harms no request."""
        try:
            if self.settings.fill != "eager":
                self._quiet.wait(captured)
            if copied is not None:
                copied.synchronize()
            work(job, kv)
        except Exception:
            logger.exception(
                "Kamera: chunk %s could not be kept", job.chunks[self.shard].digest[:12]
            )
            self._count("forming_failed")
        finally:
            self._count_unformed(-kv.num_bytes)

    def _mark(self) -> torch.cuda.Event | None:
        """Passed once the engine's stream has made the copy: the forming thread has another stream."""
        if self.pool.device.type != "cuda":
            return None
        mark = torch.cuda.Event()  # type: ignore[no-untyped-call]
        mark.record(torch.cuda.current_stream(self.pool.device))
        return mark

    def _count_unformed(self, num_bytes: int) -> None:
        with self._lock:
            self._num_unformed_bytes += num_bytes

    def _library(self, owner: Owner) -> Library:
        key = owner.models[self.shard], owner.tenant
        if key not in self._libraries:
            if len(self._libraries) >= MAX_LIBRARIES:
                self._libraries.clear()  # a client may choose a salt for each request
            self._libraries[key] = Library(
                self.store, *key, self.settings.profile, self.pool.device
            )
        return self._libraries[key]

    def _settle_device(self) -> None:
        if self.pool.device.type == "cuda":
            torch.cuda.current_stream(self.pool.device).synchronize()

    def _count(self, name: str, value: int | float = 1) -> None:
        if value:
            with self._lock:
                self._stats.add(name, value)


def _on(kv: ChunkKV, device: torch.device) -> ChunkKV:
    return ChunkKV({name: tensor.to(device) for name, tensor in kv.tensors.items()})


def _succeeded(future: Future[bool]) -> bool:
    if future.cancelled():
        logger.warning("Kamera: a load didn't begin in %.0f s", LOAD_DEADLINE_S)
        return False
    error = future.exception()
    if error is not None:
        logger.error("Kamera: a load failed", exc_info=error)
        return False
    return future.result()
