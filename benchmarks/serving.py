"""The arms of `bench_ttft` and `bench_amortise`: one request's window and question, served in one process.

All run the same model object with the same attention (`sdpa`) over the same kind of cache, and all end with
the question's last logits. No arm pays for a tower, for tokenizing, or for the network.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from blend import NO_CHECK, blend
from kamera.engines.contract import Composed
from kamera.engines.hf import cache as kv_cache
from kamera.session import Answer, Session
from kamera.session.resident import Patched
from kamera.store import Miss
from windows import QWEN_LAYERS, Subject, Window

QUESTION = "question alone"
COPY = "memcpy + question"
REPREFILL = "re-prefill"
PREFIX = "prefix cache, shifted"
BLEND = "CacheBlend 15%"
KAMERA = "Kamera"
SHARE, CHECK_LAYER = 0.15, 1
_FULL = CHECK_LAYER + 1
SPREAD = {
    "share": (_FULL + (QWEN_LAYERS - _FULL) * SHARE) / QWEN_LAYERS,
    "check_layer": NO_CHECK,
}
"""CacheBlend's token-layers of a whole model, spread evenly: 19.7 % of them."""


class Served:
    """One window under every arm.

    Args:
        session: it holds this window's patches and canonicals.
        window: what is asked for.
        check: whether CacheBlend runs its two check layers in full and then the share. Where the model is a
            part of one of `QWEN_LAYERS`, they would be most of it: there every layer runs the mean of the
            whole model's layers.
    """

    def __init__(self, session: Session, window: Window, *, check: bool) -> None:
        self.session, self.window = session, window
        self.backbone = window.subject.engine.backbone
        self.blended = {"share": SHARE, "check_layer": CHECK_LAYER} if check else SPREAD
        self._tail = window.inputs([window.tail], window.tail_start)
        self._window = window.inputs(window.cached)
        self._whole = window.inputs([*window.cached, window.tail])
        self._behind = window.inputs([*window.chunks, window.tail], window.prefix.extent)
        self._sources = [self._source(chunk) for chunk in window.cached]
        self._held, self._room = self._fresh_room(), self._fresh_room()
        self._place_blind(self._held)
        self.answers: list[Answer] = []

    def question(self) -> Tensor:
        """The question over KV that is in place: an exact prefix hit of the whole window."""
        return self._ask(Composed(self._held, self.window.num_cached))

    def copy(self) -> Tensor:
        """The same after one plain copy of the window's KV."""
        for name, tensor in self._room.tensors.items():
            tensor.copy_(self._held.tensors[name])
        return self._ask(Composed(self._room, self.window.num_cached))

    def reprefill(self) -> Tensor:
        """One forward over window and question."""
        ids, positions, media = self._whole
        return self.backbone.forward(ids, positions, self._cache(None), media)

    def prefix_cache(self) -> Tensor:
        """The chunks stand behind others than last time: only the chat prefix hits, the rest is prefilled."""
        ids, positions, media = self._behind
        held = Composed(self._held, self.window.prefix.num_tokens)
        return self.backbone.forward(ids, positions, self._cache(held), media)

    def cacheblend(self) -> Tensor:
        """Relocate every canonical, recompute the share in context, then the question."""
        self._place_blind(self._room)
        cache = self._cache(Composed(self._room, self.window.num_cached))
        blend(
            self.backbone, *self._window, cache,
            first=self.window.prefix.num_tokens, **self.blended,
        )  # fmt: skip
        ids, positions, _ = self._tail
        return self.backbone.forward(ids, positions, cache)

    def kamera(self) -> Tensor:
        """The session's own path: look-up, plan, relocate, patch, write; then the question."""
        self.session.show(self.window.chunks)
        self.answers.append(self.session.generate(self.window.tail, max_new_tokens=1))
        logits = self.answers[-1].logits
        assert logits is not None
        return logits

    def leave(self) -> None:
        """Another window is shown, so that nothing of this one stays in place."""
        self.session.show([self.window.subject.other])

    def arms(self) -> dict[str, Any]:
        """By name."""
        return {
            QUESTION: self.question,
            COPY: self.copy,
            REPREFILL: self.reprefill,
            PREFIX: self.prefix_cache,
            BLEND: self.cacheblend,
            KAMERA: self.kamera,
        }

    def check_reuse(self) -> None:
        """Kamera must have reused every chunk with its patch, and prefilled none: else nothing was measured.

        Raises:
            RuntimeError: it didn't.
        """
        self.leave()
        outcome = self.session.show(self.window.chunks)
        patched = [chunk.patch_rank for chunk in outcome.chunks[1:]]
        if outcome.num_prefilled or 0 in patched:
            raise RuntimeError(f"Not all was reused:\n{outcome.explain()}")

    def _source(self, chunk: Any) -> Patched:
        canonical = self.session.library.canonical(chunk)
        assert not isinstance(canonical, Miss), canonical
        return Patched(canonical, None)

    def _fresh_room(self) -> Any:
        engine, spare = self.window.subject.engine, self.window.tail.num_tokens
        room = engine.room(self._sources[0].like, self.window.num_cached + spare)
        for tensor in room.tensors.values():
            tensor.zero_()  # no page fault within the clock
        return room

    def _place_blind(self, room: Any) -> None:
        token = start = 0
        spec = self.window.subject.engine.spec
        for chunk, source in zip(self.window.cached, self._sources, strict=True):
            out = room.slice_tokens(token, token + chunk.num_tokens).tensors
            source.write(chunk.layout.at(start), spec, out)
            token, start = token + chunk.num_tokens, start + chunk.extent

    def _cache(self, held: Composed | None) -> Any:
        return kv_cache.write(held, self.backbone.channels)

    def _ask(self, held: Composed) -> Tensor:
        ids, positions, _ = self._tail
        return self.backbone.forward(ids, positions, self._cache(held))


def kl(logits: Tensor, wanted: Tensor) -> float:
    """KL of the next token's distribution to the wanted one, in nats."""
    p, q = (torch.log_softmax(t.double(), -1) for t in (wanted, logits))
    return float((p.exp() * (p - q)).sum())


def learned(subject: Subject, num_chunks: int) -> Session:
    """A session that has served the longest window once, and formed what belongs to it."""
    session = subject.session()
    session.show(subject.window(num_chunks).chunks)
    return session
