"""The companion: takes what clients showed and what the connector wants, and sends solo requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from kamera.engines.vllm.fill.body import images_of
from kamera.engines.vllm.fill.budget import Budget
from kamera.engines.vllm.fill.counters import FillCounters
from kamera.engines.vllm.fill.intake import Intake
from kamera.engines.vllm.fill.kept import KeptImages
from kamera.engines.vllm.fill.settings import FillSettings
from kamera.engines.vllm.fill.source import ImageSource, Source, TextSource
from kamera.engines.vllm.fill.traffic import Traffic
from kamera.engines.vllm.fill.wanted import Spool, Wanted

# Under vLLM's own logger, whose handlers and level the server's user has set.
logger = logging.getLogger("vllm.kamera.fill")


@dataclass(frozen=True)
class Sent:
    """A solo request that ended well: its prompt's tokens, and vLLM's hash of its image."""

    num_tokens: int
    mm_hash: str | None = None


@runtime_checkable
class Sender(Protocol):
    """Sends one solo request at a time."""

    @property
    def is_alive(self) -> bool:
        """False once the engine is gone for good."""
        ...

    async def send(self, source: Source) -> Sent:
        """Send it and wait for its end; whatever goes wrong is raised."""
        ...


class Companion:
    """One task on the front end's event loop. `offer` is all that a client's request ever calls.

    Args:
        sender: sends the solo requests.
        settings: policy, budget and bounds.
        reads_spool: of several front ends, one reads the texts that are wanted.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        sender: Sender,
        settings: FillSettings,
        reads_spool: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.traffic = Traffic()
        self.counters = FillCounters()
        self._sender, self._clock = sender, clock
        self._reads_texts = reads_spool
        self._bodies: deque[Sequence[bytes]] = deque()
        self._bodies_bytes = 0
        self._intake = Intake(settings.max_waiting, settings.max_waiting_bytes)
        self._kept = KeptImages(settings.max_kept_bytes)
        self._spool = (
            Spool(settings.store, settings.retry_s, settings.max_tries) if settings.store else None
        )
        self._budget = Budget(settings.per_minute)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._num_sending = 0

    @property
    def is_running(self) -> bool:
        """Whether the task runs."""
        return self._task is not None and not self._task.done()

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits and nothing is under way; what the spool holds apart."""
        return not (self._bodies or len(self._intake) or self._num_sending)

    def start(self) -> None:
        """Start the task on the running loop, unless the policy is `off`."""
        if self.settings.policy != "off" and not self.is_running:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="kamera-fill")

    async def stop(self) -> None:
        """End the task; a solo request under way is aborted."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def offer(self, body: Sequence[bytes]) -> None:
        """A request's body, in pieces. Appends to a bounded queue and returns; never raises."""
        if not self.is_running:
            return
        self._bodies.append(body)
        self._bodies_bytes += _len(body)
        while self._bodies_bytes > self.settings.max_waiting_bytes:
            self._bodies_bytes -= _len(self._bodies.popleft())
            self.counters.num_dropped_bodies += 1
        self._wake.set()

    def to_json(self) -> dict[str, Any]:
        """What `GET /kamera/fill` answers."""
        spool = self._spool
        return {
            "policy": self.settings.policy,
            "is_running": self.is_running,
            "num_clients_in_flight": self.traffic.num_in_flight,
            "num_waiting": len(self._bodies) + len(self._intake) + self._num_sending,
            "num_wanted": spool.num_wanted if spool else 0,
            "num_wanted_unreadable": spool.num_unreadable if spool else 0,
            "num_wanted_given_up": spool.num_given_up if spool else 0,
            "num_kept_bytes": self._kept.num_bytes,
            **self.counters.to_json(),
        }

    async def _run(self) -> None:
        while self._sender.is_alive:
            try:
                await self._round()
            except Exception:
                # A bug here must cost reuse alone. The pause keeps it from filling the log.
                logger.exception("The fill companion failed; it goes on")
                await asyncio.sleep(self.settings.retry_s)
        logger.warning("The engine is gone: the fill companion stops")

    async def _round(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), self.settings.poll_s)
        self._wake.clear()
        await self._look()
        while self._sender.is_alive and (source := self._intake.pop()) is not None:
            self._num_sending = 1
            try:
                await self._turn()
                await self._send(source)
            finally:
                self._num_sending = 0
            await self._look()

    async def _look(self) -> None:
        """Take in the bodies that wait, then what the spool wants."""
        await self._quiet()
        while self._bodies:
            body = self._bodies[0]
            images = await asyncio.to_thread(_images, body)
            if self._bodies and self._bodies[0] is body:  # else it was dropped meanwhile
                self._bodies.popleft()
                self._bodies_bytes -= _len(body)
            self.counters.num_bodies += 1
            for image in images:
                self.counters.num_images += 1
                self._take(image)
        if self._spool is not None:
            await asyncio.to_thread(self._spool.refresh)
            for wanted in self._spool.due(self._clock()):
                self._take_wanted(self._spool, wanted)

    def _take(self, source: Source) -> None:
        now = self._clock()
        if self._intake.knows(source, now):
            self.counters.num_known += 1
        elif not self._intake.add(source, now):
            self.counters.num_dropped_sources += 1

    def _take_wanted(self, spool: Spool, wanted: Wanted) -> None:
        now = self._clock()
        source: Source
        if wanted.mm_hash is None:
            if not self._reads_texts:
                return
            source = TextSource(wanted.token_ids, wanted.cache_salt)
        else:
            kept = self._kept.get(wanted.mm_hash, wanted.cache_salt)
            # Not seen here, or not sent yet, or its canonical is on its way to the store.
            if kept is None or now - kept.sent_at < self.settings.retry_s:
                return
            source = kept.source
        # A full queue isn't a try: the file stays, and is due at the next look.
        if self._intake.add(source, now, again=True) and spool.tried(wanted, now):
            self.counters.num_retried += 1

    async def _turn(self) -> None:
        """Wait for the budget, and for a quiet moment where the policy asks for one."""
        while (delay_s := self._budget.delay_s(self._clock())) > 0:
            await asyncio.sleep(delay_s)
        await self._quiet()
        self._budget.spend(self._clock())

    async def _quiet(self) -> None:
        if self.settings.policy == "idle":
            await self.traffic.quiet()

    async def _send(self, source: Source) -> None:
        try:
            async with asyncio.timeout(self.settings.solo_timeout_s):
                sent = await self._sender.send(source)
        except Exception as error:
            self.counters.num_failed += 1
            self._intake.failed(source, self._clock() + self.settings.retry_s)
            kind = "image" if isinstance(source, ImageSource) else "text"
            logger.warning("No canonical for a chunk (%s): %s", kind, _short(error))
            return
        self.counters.num_sent += 1
        self.counters.num_sent_tokens += sent.num_tokens
        if sent.mm_hash is not None and isinstance(source, ImageSource):
            self._kept.put(sent.mm_hash, source, self._clock())


def _images(body: Sequence[bytes]) -> list[ImageSource]:
    """In a thread: parsing and hashing megabytes of base64 isn't for the event loop."""
    images = images_of(b"".join(body))
    for image in images:
        _ = image.digest
    return images


def _len(body: Sequence[bytes]) -> int:
    return sum(len(piece) for piece in body)


def _short(error: Exception, max_len: int = 300) -> str:
    """One line of a log; an error may quote a whole `data:` url."""
    text = f"{type(error).__name__}: {error}"
    return " ".join(text[:max_len].split()) + ("…" if len(text) > max_len else "")
