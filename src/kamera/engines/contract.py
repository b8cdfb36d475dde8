"""What a session needs of an engine: name chunks, see, prefill, read and write KV. Nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.identity import ModelKey
from kamera.rope import Rope

Vision = Mapping[str, Tensor]
"""Image digest -> vision embeddings [tokens, hidden]."""

LayerRows = Mapping[str, Tensor]
"""Channel name -> [R, H, D] of one layer, rotated as cached."""

KeepRows = Callable[[int, LayerRows, LayerRows], Tensor]
"""(layer, fresh, held) -> bool [R]: which of the rows that are run keep their fresh KV in this layer."""

Observe = Callable[[int, Tensor], None]
"""Called with (layer, attention weights [Q, R, T], float32)."""


@dataclass(frozen=True)
class Prompt:
    """A chat request as chunks and a tail. The tail holds the question and is never cached."""

    chunks: tuple[Chunk, ...]
    tail: Chunk


@dataclass(frozen=True, eq=False)
class Composed:
    """A window's placed KV in the engine's own memory layout, with room behind it.

    Attributes:
        room: [L, S, H, D] by channel, as `Engine.room` made it.
        num_tokens: T, those of the window. What is behind them is scratch: a forward behind the window puts
            its own KV there.
    """

    room: ChunkKV
    num_tokens: int

    @property
    def kv(self) -> ChunkKV:
        """The window's, as views."""
        return self.room.slice_tokens(0, self.num_tokens)


Context = ChunkKV | Composed
"""Placed KV that a forward runs behind. A `ChunkKV` is copied, `Composed` is read where it is."""


@dataclass(frozen=True, eq=False)
class Prefilled:
    """One forward's result: the new tokens' KV as the engine cached it, and the last logits."""

    kv: ChunkKV
    logits: Float[Tensor, " vocab"]


@dataclass(frozen=True, eq=False)
class Generated:
    """Greedy decoding: the tokens, their text, and the logits that chose the first of them."""

    token_ids: tuple[int, ...]
    text: str
    logits: Float[Tensor, " vocab"]
    ttft_s: float
    """From the call to the first token."""


@runtime_checkable
class Engine(Protocol):
    """A model that can prefill chunks behind any KV. One request at a time; not thread-safe."""

    @property
    def model_key(self) -> ModelKey:
        """All that decides the KV bytes."""

    @property
    def spec(self) -> Rope:
        """The model's rotary scheme."""

    @property
    def device(self) -> torch.device:
        """Where the KV that `prefill` gives and takes lies."""

    @property
    def num_vision_runs(self) -> int:
        """Images that the vision tower ran over since the engine was made."""

    def prompt(self, messages: Sequence[Mapping[str, Any]], *, tenant: str | None = None) -> Prompt:
        """Split a chat request into chunks, wrapper tokens included, and a tail."""

    def frame(self, question: str, *, tenant: str | None = None) -> tuple[Chunk | None, Chunk]:
        """What the chat template writes around a user turn's images: the pinned prefix, and the tail."""

    def image_chunk(self, image: Any, *, tenant: str | None = None) -> Chunk:
        """One image with its wrapper tokens. Doesn't run the vision tower."""

    def see(self, chunk: Chunk) -> Tensor:
        """Run the vision tower over an image chunk. [tokens, hidden]; counted."""

    def room(self, like: ChunkKV, num_tokens: int) -> ChunkKV:
        """Memory for the KV of so many tokens, [L, S, H, D], where forwards read it in place.

        Of the layers, heads, dtype and device of `like`; not initialised.
        """

    def prefill(
        self, chunks: Sequence[Chunk], vision: Vision, *, start: int, context: Context | None = None
    ) -> Prefilled:
        """Prefill chunks in one forward at position `start`, behind the placed KV `context`.

        `vision` must hold the embeddings of every image among `chunks`. Gives their KV as cached, rotated
        to their positions.
        """

    def generate(
        self, tail: Chunk, *, start: int, context: Context | None, max_new_tokens: int
    ) -> Generated:
        """Prefill the tail behind `context` and decode greedily."""


@dataclass(frozen=True, eq=False)
class Recomputed:
    """A window's KV after some of its tokens were recomputed in context.

    Attributes:
        kv: of the whole window.
        written: [L, R]: which of the rows that were run kept their fresh KV, by layer.
    """

    kv: ChunkKV
    written: Bool[Tensor, "L R"]


@runtime_checkable
class OpenEngine(Engine, Protocol):
    """What the arms need beyond a session: to work inside a window, layer by layer."""

    def is_media(self, chunk: Chunk) -> Bool[Tensor, " T"]:
        """Which of a chunk's tokens stand for media."""

    def recompute(
        self,
        chunks: Sequence[Chunk],
        vision: Vision,
        held: ChunkKV,
        rows: Bool[Tensor, " T"],
        keep: KeepRows,
        *,
        inputs: tuple[int, Tensor] | None = None,
        observe: Observe | None = None,
    ) -> Recomputed:
        """Run the tokens of `rows` in context, against the window's placed KV `held`.

        The window starts at position 0. In every layer, `keep` chooses the rows whose fresh K and V are
        written before attention reads them. `inputs` (layer, [R, hidden]) replaces what reaches a layer;
        `observe` is shown its attention.
        """

    def layer_inputs(self, chunk: Chunk, vision: Vision, layer: int) -> Float[Tensor, "T hidden"]:
        """The hidden states that reach `layer` when the chunk is prefilled alone."""
