"""The half beside vLLM's scheduler: what a request gets from the store, and what is worth keeping of it."""

from __future__ import annotations

import logging
import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kamera.engines.vllm.metadata import CaptureJob, Jobs, LoadJob, Piece
from kamera.engines.vllm.model import ServedModel
from kamera.engines.vllm.request_reader import RequestReader
from kamera.engines.vllm.settings import ConnectorSettings
from kamera.engines.vllm.spool import Spool
from kamera.engines.vllm.steps import Formed, Shelf, Step, blind_steps, steps_of
from kamera.engines.vllm.sums import Sums
from kamera.engines.vllm.tracked import Tracked, plan_name
from kamera.library import Library
from kamera.planner import PatchKind
from kamera.store import Store

logger = logging.getLogger("vllm.kamera")

MAX_LIBRARIES = 1024
"""Libraries that are kept at hand, one a model and tenant. They hold nothing but counts."""
PLAN_SHARE = 10
"""A request that waits for blocks is planned again after so many times what the last plan took."""
LEFT = "held, but in the engine's prefix cache or too short to load"


class SchedulerHalf:
    """Matches, jobs and counters, for a model that is served."""

    def __init__(
        self,
        vllm_config: Any,
        settings: ConnectorSettings,
        model: ServedModel,
        store: Store,
    ) -> None:
        self.settings, self.model, self.store = settings, model, store
        self.stats = Sums()
        self._vllm_config = vllm_config
        self._keys = model.keys(vllm_config)
        self._reader = RequestReader(model.family, model.wrapping(vllm_config), settings.tenant)
        self._formed = [Formed() for _ in self._keys]
        self._libraries: dict[tuple[str, str | None], Library] = {}
        self._secret = secrets.token_hex(16)
        self._spool = Spool(settings.store) if settings.store and settings.captures else None
        self._tracked: dict[str, Tracked] = {}
        self._loads: list[LoadJob] = []
        self._forget = False

    # What vLLM asks, in the order in which it does.

    def match(self, request: Any, num_computed: int) -> tuple[int, bool]:
        """Tokens beyond `num_computed` that are held, and that they are loaded off the engine's thread."""
        tracked = self._track(request)
        if not tracked.num_chunks or tracked.failed:
            return 0, False
        if tracked.num_loaded:
            # Preempted. What vLLM finds now lies under the salt of what was composed: none of it is exact.
            tracked.num_local, tracked.is_again = 0, True
        else:
            self._plan(tracked)
        held = tracked.num_loaded or tracked.num_held
        tokens = tracked.ends[held - 1] if held else 0
        missing = tokens - num_computed
        if missing > 0 and (tracked.num_loaded or self._is_worth(tracked, held, num_computed)):
            return missing, True
        return 0, False

    def _plan(self, tracked: Tracked) -> None:
        """vLLM asks in every step while a request waits: planning mustn't eat the engine's time."""
        clock = time.perf_counter()
        if clock < tracked.planned_until:
            return
        tracked.steps = [self._steps(tracked, shard) for shard in range(len(self._keys))]
        done = time.perf_counter()
        tracked.planned_until = done + PLAN_SHARE * (done - clock)

    def _is_worth(self, tracked: Tracked, held: int, num_computed: int) -> bool:
        """Enough tokens, and not just the rest of one chunk: it would make all that follows approximate."""
        begin, end = tracked.begin(held - 1), tracked.ends[held - 1]
        is_rest = begin < num_computed and held < tracked.num_chunks
        return end - num_computed >= self.settings.min_tokens and not is_rest

    def allocated(self, request: Any, blocks: Sequence[int], num_external: int) -> None:
        """Blocks are there: queue the load. What it composes is told apart from what the engine computes."""
        tracked = self._track(request)
        if num_external:
            if not tracked.num_loaded:
                tracked.num_loaded = tracked.num_held
                tracked.num_local = tracked.ends[tracked.num_loaded - 1] - num_external
                name = plan_name(of[: tracked.num_loaded] for of in tracked.steps)
                _isolate(request, f"{self._secret}:{name}")
            skip = tracked.ends[tracked.num_loaded - 1] - num_external
            self._loads.append(self._load(tracked, skip, blocks))
        self._count(tracked)

    def jobs(self, scheduled: Mapping[str, int], manager: Any) -> Jobs:
        """This step's jobs. `scheduled`: tokens that each request computes in it."""
        jobs = Jobs(self._loads, forget=self._forget)
        self._loads, self._forget = [], False
        if self.settings.captures:
            for name, count in scheduled.items():
                tracked = self._tracked.get(name)
                if tracked is not None and tracked.num_chunks:
                    done = tracked.request.num_computed_tokens + count
                    jobs.captures += self._captures(tracked, done, manager)
        return jobs

    def loads_failed(self, requests: set[str]) -> None:
        """Their blocks are prefilled, and not asked for again."""
        for name in requests:
            tracked = self._tracked.get(name)
            if tracked is not None:
                tracked.failed = True
                if tracked.is_again:
                    # Composed blocks of the load before may be among its own: nothing of it is exact.
                    tracked.captured = set(range(tracked.num_chunks))
                else:
                    # Another request's composed blocks lie under the salt: vLLM mustn't find them now.
                    _rename(tracked.request, tracked.salt)
                self.stats.add("chunks_missed", tracked.num_loaded, "load failed")
                logger.warning("Kamera: request %s: a load failed, its tokens are prefilled", name)

    def finished(self, request: Any) -> None:
        """The request is done with."""
        self._tracked.pop(request.request_id, None)

    def reset(self) -> bool:
        """Nothing that was stored until now is read again: weights may have changed in place."""
        epoch = f"reset-{uuid.uuid4().hex}"
        self._keys = tuple(replace(key, model_id=epoch) for key in self._keys)
        self._formed = [Formed() for _ in self._keys]
        self._forget = True
        if self._spool is not None:
            self._spool.clear()
        logger.info("Kamera: the cache was reset, what was stored isn't read any more")
        return True

    def _track(self, request: Any) -> Tracked:
        name = request.request_id
        if name not in self._tracked:
            tracked = self._tracked[name] = self._reader.read(request, self._keys)
            if tracked.passed:
                self.stats.add("requests_passed", label=tracked.passed.split(":")[0])
                logger.debug("Kamera: request %s is left untouched: %s", name, tracked.passed)
        return self._tracked[name]

    # The store.

    def _library(self, model: str, tenant: str | None) -> Library:
        if (model, tenant) not in self._libraries:
            if len(self._libraries) >= MAX_LIBRARIES:
                self._libraries.clear()  # a client may choose a salt for each request
            self._libraries[model, tenant] = Library(
                self.store, model, tenant, self.settings.profile
            )
        return self._libraries[model, tenant]

    def _steps(self, tracked: Tracked, shard: int) -> list[Step]:
        chunks = tracked.chunks[shard]
        library = self._library(tracked.owner.models[shard], tracked.owner.tenant)
        if tracked.blind:
            return blind_steps(chunks, library)
        shelf = Shelf(library, self._formed[shard])
        steps = steps_of(chunks, shelf, keep_survivors=self.settings.keep_survivors)
        for chunk, step in zip(chunks, steps, strict=True):
            if step.held and step.patch is not None:
                self._formed[shard].add(chunk.digest, step.patch)
            if step.held and self._spool is not None:
                self._spool.done(chunk.digest)
        return steps

    def _load(self, tracked: Tracked, skip: int, blocks: Sequence[int]) -> LoadJob:
        shards, starts = range(len(self._keys)), tracked.starts()
        pieces = tuple(
            Piece(
                tuple(tracked.chunks[s][i] for s in shards),
                tuple(tracked.steps[s][i].patch for s in shards),
                starts[i],
            )
            for i in range(tracked.num_loaded)
        )
        return LoadJob(tracked.request.request_id, tracked.owner, pieces, skip, tuple(blocks))

    def _captures(self, tracked: Tracked, done: int, manager: Any) -> list[CaptureJob]:
        """Chunks whose last token is computed in this step and whose KV isn't kept yet."""
        loaded = 0 if tracked.failed else tracked.num_loaded
        fresh = [
            index
            for index in range(loaded, tracked.num_chunks)
            if index not in tracked.captured and tracked.ends[index] <= done
        ]
        if not fresh:
            return []
        shards, starts = range(len(self._keys)), tracked.starts()
        contexts = [tracked.contexts(shard) for shard in shards]
        blocks: tuple[int, ...] | None = None
        jobs = []
        for index in fresh:
            tracked.captured.add(index)
            antecedents = tuple(tracked.antecedents(shard, index) for shard in shards)
            behind = tuple(of[index] for of in contexts)
            if not self._wanted(tracked, index, antecedents, behind):
                continue
            blocks = blocks or tuple(manager.get_block_ids(tracked.request.request_id)[0])
            jobs.append(
                CaptureJob(
                    tracked.owner,
                    tuple(tracked.chunks[shard][index] for shard in shards),
                    tracked.begin(index),
                    starts[index],
                    blocks,
                    antecedents,
                    behind,
                )
            )
        return jobs

    def _wanted(
        self,
        tracked: Tracked,
        index: int,
        antecedents: tuple[tuple[str, ...], ...],
        contexts: tuple[str, ...],
    ) -> bool:
        """Whether a shard lacks what this chunk's KV would give; asks for a canonical that is missing."""
        wanted = False
        for shard, model in enumerate(tracked.owner.models):
            chunk = tracked.chunks[shard][index]
            library = self._library(model, tracked.owner.tenant)
            has_canonical = library.has_canonical(chunk)
            if not antecedents[shard]:
                wanted |= not has_canonical
                if shard == 0 and self._spool is not None and not has_canonical:
                    self._spool.coming(chunk.digest)
                continue
            if shard == 0 and self._spool is not None:
                if has_canonical:
                    self._spool.done(chunk.digest)
                else:
                    self._spool.ask(chunk, tracked.salt, tracked.hashes[index])
            kind: PatchKind = "served" if contexts[shard] else "exact"
            record = library.record(chunk, kind, antecedents[shard], contexts[shard])
            self._formed[shard].add(chunk.digest, record)
            wanted |= not library.has_patch(record)
        return wanted

    def _count(self, tracked: Tracked) -> None:
        """Once a request: what it was served, what it missed and why."""
        if tracked.counted or not tracked.num_chunks:
            return
        tracked.counted = True
        steps = tracked.steps[0]
        saved = 0
        if tracked.num_loaded:
            saved = tracked.ends[tracked.num_loaded - 1] - tracked.num_local
            self.stats.add("tokens_saved", saved)
        said = []
        for index, step in enumerate(steps):
            kind = tracked.chunks[0][index].key.kind
            if index < tracked.num_loaded:
                self.stats.add("chunks_served", label=step.point)
                said.append(f"{index} {kind}: {step.point} ({step.reason})")
            else:
                reason = LEFT if step.held else step.reason
                self.stats.add("chunks_missed", label=_short(reason))
                said.append(f"{index} {kind}: prefill ({reason})")
        logger.info(
            "Kamera: request %s: %d of %d tokens composed; %s",
            tracked.request.request_id,
            saved,
            len(tracked.request.prompt_token_ids),
            "; ".join(said),
        )


def _isolate(request: Any, name: str) -> None:
    """A salt of its own for the request's blocks: what is composed is never found under a plain prefix."""
    _rename(request, f"kamera:{name}")


def _rename(request: Any, salt: str | None) -> None:
    """Another salt for the blocks that the request will name from now on."""
    request.cache_salt = salt
    request.block_hashes = []
    request.update_block_hashes()


def _short(reason: str) -> str:
    """A reason without what differs from request to request: a label must have few values."""
    return reason.removeprefix("miss: ").split(" at chunk ")[0]
