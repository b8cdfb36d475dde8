"""`Session`: an agent's window over an engine and a store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from kamera import kernels
from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.engines.contract import Engine
from kamera.errors import ConfigError
from kamera.library import Library
from kamera.planner import (
    Catalog,
    Plan,
    Request,
    RequestedChunk,
    plan,
)
from kamera.session.canvas import Canvas
from kamera.session.carrier import Carrier
from kamera.session.former import Former
from kamera.session.holdings import Holdings
from kamera.session.outcome import Answer, Outcome
from kamera.session.pending import Pending
from kamera.session.resident import Resident
from kamera.session.settings import SessionSettings
from kamera.store import Store, open_store
from kamera.window import Slot, Window

PREFIX = "prefix"


class Session:
    """Chunks are admitted, slide out, are reordered and recalled; questions are asked of the window.

    Every verb carries the window out at once and says, chunk by chunk, how each was served and at what
    cost. A verb that raises leaves the window as it was. Not thread-safe.
    """

    def __init__(
        self, engine: Engine, store: Store, settings: SessionSettings | None = None
    ) -> None:
        self.engine, self.store = engine, store
        self.settings = settings or SessionSettings()
        self.window = Window(self.settings.capacity, max_evicted=self.settings.max_evicted)
        tenant, profile = self.settings.tenant, self.settings.profile
        self.library = Library(store, engine.model_key.digest, tenant, profile, engine.device)
        self._former = Former(engine, self.library)
        deferred = self.settings.forming == "deferred"
        self._pending = Pending(self._former, deferred, self.settings.max_pending)
        self._prefix, _ = engine.frame("?", tenant=tenant)
        self._chunks: dict[str, Chunk] = {}
        self._canvas = Canvas(engine)
        self._carrier = Carrier(
            engine,
            self.library,
            self._former,
            self._pending,
            self._canvas,
            self._chunks,
            self._prefix,
            self.settings.form_leading,
        )
        self._residents: dict[str, Resident] = {}
        self._last: Outcome | None = None
        self._is_closed = False
        if engine.device.type == "cpu":
            kernels.warm_up(getattr(torch, engine.model_key.dtype))

    @property
    def prefix(self) -> Chunk | None:
        """The pinned prefix: what the chat template writes in front of the window."""
        return self._prefix

    @classmethod
    def open(
        cls,
        model: str | Path,
        *,
        store: str | Path | None = None,
        dtype: str = "auto",
        device: str = "cpu",
        **settings: Any,
    ) -> Session:
        """Load a local checkpoint with Transformers; `store` is a folder, or None for memory alone.

        Keyword arguments beyond these are `SessionSettings`. Close the session when done.
        """
        from kamera.engines.hf import HFEngine

        chosen = SessionSettings.of(settings)
        engine = HFEngine.from_pretrained(model, dtype=dtype, device=device)
        return cls(engine, open_store(store), chosen)

    def close(self) -> None:
        """Form what is pending, then close the store. What it holds on disk stays. No verb works after it."""
        self._is_closed = True
        try:
            self._pending.run()
        finally:
            self.store.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def admit(self, image: Any, *, name: str | None = None) -> Outcome:
        """Append an image (a path or a PIL image). When the window is full the oldest leaves.

        A chunk that this session's engine made is taken as it is: a span of text, a video, an audio clip.

        Raises:
            ConfigError: the image can't be read, the name is taken, or a chunk that another model or
                tenant made.
        """
        chunk = self._as_chunk(image)
        slot = Slot(self._free_name() if name is None else name, chunk.digest)
        if not isinstance(slot.name, str):
            raise ConfigError(f"Invalid name: expected text, got {slot.name!r:.80}")
        if slot.name == PREFIX:
            raise ConfigError(
                f"Name {PREFIX!r} is taken: it names the pinned prefix; choose another"
            )
        window = self.window.admit(slot)
        self._chunks.setdefault(chunk.digest, chunk)
        return self._carry_out("admit", window)

    def slide(self, count: int = 1) -> Outcome:
        """The `count` oldest chunks leave; those that stay are relocated.

        Raises:
            ConfigError: fewer chunks than that are in the window.
        """
        return self._carry_out("slide", self.window.slide(count))

    def reorder(self, names: Sequence[str]) -> Outcome:
        """Put the window's chunks in another order. `prepare_reorders` makes this free ahead of time.

        Raises:
            ChunkNotFoundError, ConfigError: the names aren't those in the window, each once.
        """
        return self._carry_out("reorder", self.window.reorder(names))

    def recall(self, name: str, *, at: int | None = None) -> Outcome:
        """Bring back a chunk that left, at index `at` (None: at the end).

        Raises:
            ChunkNotFoundError: no chunk of this name has left.
        """
        return self._carry_out("recall", self.window.recall(name, at))

    def show(self, images: Sequence[Any]) -> Outcome:
        """Make the window hold exactly these images, in this order: what a stateless request asks for.

        Takes paths, PIL images or chunks. Each is named by its digest, and by its count when it repeats.

        Raises:
            ConfigError: more than the window holds, an image that can't be read, or a chunk that another
                model or tenant made.
        """
        chunks = [self._as_chunk(image) for image in images]
        window = self.window.show(_shown(chunks))
        self._chunks.update({chunk.digest: chunk for chunk in chunks})
        return self._carry_out("show", window)

    @property
    def num_pending(self) -> int:
        """Chunks that were prefilled and are not yet formed: `forming="deferred"`."""
        return len(self._pending)

    @property
    def num_form_failures(self) -> int:
        """Deferred chunks that could not be formed. Each was logged, and is formed when it is next wanted."""
        return self._pending.num_failed

    def form_pending(self, count: int | None = None) -> int:
        """Form the `count` chunks that wait longest, or all: call it while nobody waits for an answer.

        Gives how many were formed. What is left is formed when a window needs it, or at `close`.

        Raises:
            ConfigError: a count that isn't a whole number, or is below 0.
        """
        self._check_open()
        if count is not None and (type(count) is not int or count < 0):
            raise ConfigError(
                f"Invalid count: expected a whole number of chunks, at least 0, or None for all, got "
                f"{count!r:.80}"
            )
        return self._pending.run(count)

    def prepare_reorders(self) -> int:
        """Form an orbit patch for each chunk and each set of the others before it. Off the path.

        Returns the number of orderings that were prefilled for it: 0 when the store has every patch.
        """
        self._check_open()
        self._pending.run()
        chunks = [self._chunks[slot.chunk] for slot in self.window.slots]
        return self._former.learn_orbits(self._prefix, chunks, self.settings.max_orderings)

    def ask(self, question: str, *, max_new_tokens: int = 16) -> Answer:
        """Answer a question over the window; the question's own tokens are all that is prefilled.

        Raises:
            ConfigError: the question holds vision wrappers, or max_new_tokens isn't positive.
        """
        prefix, tail = self.engine.frame(question, tenant=self.settings.tenant)
        if prefix != self._prefix:
            raise ConfigError(
                f"The chat template writes another prefix for the question {question!r:.80} than the one "
                "that is pinned: expected the question behind the images alone. Use `generate` with a "
                "tail of your own."
            )
        return self.generate(tail, max_new_tokens=max_new_tokens)

    def generate(self, tail: Chunk, *, max_new_tokens: int = 16) -> Answer:
        """`ask`, for a tail that the caller made.

        Raises:
            ConfigError: a tail that isn't a text that this session's engine made for its tenant.
        """
        self._own(tail)
        outcome = self._carry_out("ask", self.window)
        clock = time.perf_counter()
        start = self._compose(tail.num_tokens)
        context = self._canvas.front(len(self._residents))
        composed = outcome.path_s + time.perf_counter() - clock
        made = self.engine.generate(
            tail, start=start, context=context, max_new_tokens=max_new_tokens
        )
        return Answer(
            "ask",
            outcome.chunks,
            path_s=outcome.path_s,
            form_s=outcome.form_s,
            text=made.text,
            token_ids=made.token_ids,
            logits=made.logits,
            num_tail=tail.num_tokens,
            ttft_s=composed + made.ttft_s,
        )

    def placed(self) -> list[ChunkKV]:
        """A copy of each chunk's KV as it stands in the window, the prefix first."""
        self._compose(0)
        return [self._canvas.placed(index) for index in range(len(self._residents))]

    def plan(self, window: Window | None = None) -> Plan:
        """What carrying out `window` (None: the present one) would do. Runs nothing."""
        window = window or self.window
        request = self._request(window)
        return plan(request, self._catalog(window))

    def _carry_out(self, verb: str, window: Window) -> Outcome:
        """Serve every chunk of `window` from the front; the session changes only when all are."""
        self._check_open()
        if self._last is not None and window == self.window:
            return self._last.unchanged(verb)
        clock = time.perf_counter()
        self._settle(window)
        formed_s = self._former.form_s  # what was settled is waited for
        carried = self._carrier.carry(self.plan(window), self._residents)
        left = tuple(name for name in self.window.names if name not in window.names)
        form_s = self._former.form_s - formed_s
        path_s = time.perf_counter() - clock - form_s
        outcome = Outcome(verb, tuple(carried.outcomes), left, path_s, form_s)
        # Plain stores with no call between them: an interrupt can't leave half of them done.
        self._last, self.window, self._residents = outcome, window, carried.residents
        self._forget()
        return outcome

    def _check_open(self) -> None:
        if self._is_closed:  # it would answer, and keep nothing of it
            raise ConfigError(
                "The session is closed: open another, over the same store if it has one"
            )

    def _forget(self) -> None:
        """Let go of the chunks, and their pixels, that no verb can bring back."""
        kept = {slot.chunk for slot in (*self.window.slots, *self.window.evicted)}
        if self._prefix is not None:
            kept.add(self._prefix.digest)
        for digest in self._chunks.keys() - kept:
            del self._chunks[digest]

    def _settle(self, window: Window) -> None:
        """Form what is pending of the chunks that aren't held behind the antecedents they get here.

        The plan is then the one that forming at once would have led to.
        """
        if not len(self._pending):
            return
        order, slots = self._order(window), self._slots()
        held = {(slots[name], held.antecedents) for name, held in self._residents.items()}
        wanted = {c for i, c in enumerate(order) if (c, tuple(order[:i])) not in held}
        self._pending.settle(wanted)

    def _compose(self, num_more: int) -> int:
        """Have the window stand on the canvas, with room for so many tokens more. Gives where it ends.

        All of it does already, but after a verb that failed half way.
        """
        start, chunks = 0, [self._chunks[digest] for digest in self._order(self.window)]
        self._canvas.reserve(sum(chunk.num_tokens for chunk in chunks) + num_more)
        held = self._residents.values()  # in window order
        for index, (chunk, resident) in enumerate(zip(chunks, held, strict=False)):
            self._canvas.lay(index, resident.source, chunk, start)
            start += chunk.extent
        return start

    def _as_chunk(self, source: Any) -> Chunk:
        if isinstance(source, Chunk):
            return self._own(source)
        return self.engine.image_chunk(source, tenant=self.settings.tenant)

    def _own(self, chunk: Chunk) -> Chunk:
        """The chunk, if this session's model and tenant made it: its name stands for their KV alone."""
        if chunk.key.model != self.engine.model_key:
            raise ConfigError(
                f"Chunk {chunk.digest[:12]} was made for another model, or for this one in another dtype: "
                "expected one that this session's engine made"
            )
        if chunk.key.tenant != self.settings.tenant:
            raise ConfigError(
                f"Chunk {chunk.digest[:12]} is tenant {chunk.key.tenant!r}'s: expected one of "
                f"{self.settings.tenant!r}, this session's"
            )
        return chunk

    def _free_name(self) -> str:
        """`chunk-N` for the lowest N, from the count of the known ones on, that isn't taken."""
        taken = {slot.name for slot in (*self.window.slots, *self.window.evicted)}
        return next(name for n in count(len(taken)) if (name := f"chunk-{n}") not in taken)

    def _order(self, window: Window) -> list[str]:
        """The digests in window order, the prefix first."""
        if self._prefix is not None:
            self._chunks.setdefault(self._prefix.digest, self._prefix)
        head = [] if self._prefix is None else [self._prefix.digest]
        return [*head, *(slot.chunk for slot in window.slots)]

    def _request(self, window: Window) -> Request:
        order = self._order(window)
        names = [*([PREFIX] * (len(order) - len(window.slots))), *window.names]
        return Request(
            tuple(
                RequestedChunk(name, chunk, self._chunks[chunk].num_tokens)
                for name, chunk in zip(names, order, strict=True)
            ),
            pinned=self._prefix is not None,
            keep_survivors=self.settings.keep_survivors,
        )

    def _slots(self) -> dict[str, str]:
        """The digest of the chunk in each slot, the prefix's among them."""
        slots = {PREFIX: self._prefix.digest if self._prefix else ""}
        slots.update((slot.name, slot.chunk) for slot in self.window.slots)
        return slots

    def _catalog(self, window: Window) -> Catalog:
        ever_left = {slot.chunk for slot in (*self.window.evicted, *window.evicted)}
        return Holdings(self.library, self._residents, self._slots(), ever_left)


def _shown(chunks: Sequence[Chunk]) -> list[Slot]:
    """Slots of a shown window: a chunk's name is the same in every window, for its n-th appearance."""
    seen: Counter[str] = Counter()
    slots = []
    for chunk in chunks:
        seen[chunk.digest] += 1
        again = f"-{seen[chunk.digest]}" if seen[chunk.digest] > 1 else ""
        slots.append(Slot(f"shown-{chunk.digest[:12]}{again}", chunk.digest))
    return slots
