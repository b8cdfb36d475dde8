"""`HFEngine`: any supported checkpoint, through Transformers' own model and processor classes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.chunk import Chunk, Media
from kamera.engines.contract import (
    Context,
    Generated,
    KeepRows,
    Observe,
    Prefilled,
    Prompt,
    Recomputed,
    Vision,
)
from kamera.engines.hf import cache as kv_cache
from kamera.engines.hf import recompute as in_context
from kamera.engines.hf.audio import Audio, process_audio
from kamera.engines.hf.chat import Ids, check_text, encode, media_of, render, split_ids
from kamera.engines.hf.family import Family
from kamera.engines.hf.identity import model_key
from kamera.engines.hf.images import open_image, process
from kamera.engines.hf.loading import Checkpoint, load
from kamera.engines.hf.modality import Modality
from kamera.engines.hf.videos import Video, process_video
from kamera.errors import ConfigError
from kamera.identity import MEDIA_KINDS, ChunkKey, MediaIdentity, ModelKey
from kamera.positions import text_layout
from kamera.rope import Rope

CONTENT = "\ue000"
"""Stands for a user's words in a template: a private-use character, which no template writes."""


class HFEngine:
    """A loaded model, its tokenizer and its processors. See `kamera.engines.contract`."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.backbone, self.tokenizer = checkpoint.backbone, checkpoint.tokenizer
        self.model, self.processors = checkpoint.backbone.model, checkpoint.processors
        self._model_key = model_key(self.backbone, checkpoint.folder)
        self._num_media_runs = 0
        self._markers = {m.kind: self._plain_ids(m.marker) for m in self.family.modalities}
        self._media_tokens = self._special_media_ids()
        for modality in self.family.modalities:
            self._check_marker(modality, checkpoint.folder)

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, *, dtype: str = "auto", device: str = "cpu"
    ) -> HFEngine:
        """Load a checkpoint from a local folder.

        Raises:
            ConfigError: the folder isn't a checkpoint, or there is no such dtype or device.
            UnsupportedModelError: its model type, rotary scheme or layers can't be served.
        """
        return cls(load(folder, dtype=dtype, device=device))

    @property
    def family(self) -> Family:
        """The row of the model's type."""
        return self.backbone.family

    @property
    def model_key(self) -> ModelKey:
        """All that decides the KV bytes."""
        return self._model_key

    @property
    def spec(self) -> Rope:
        """The model's rotary scheme."""
        return self.backbone.rope

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return self.backbone.device

    @property
    def num_vision_runs(self) -> int:
        """Images, videos and audio clips that a tower ran over since the engine was made."""
        return self._num_media_runs

    def prompt(self, messages: Sequence[Mapping[str, Any]], *, tenant: str | None = None) -> Prompt:
        """Split a chat request into chunks, wrapper tokens included, and a tail.

        Raises:
            ConfigError: messages of another form, nothing behind the last media item, or a part of a
                kind that the model doesn't take.
        """
        media = media_of(messages, [modality.kind for modality in self.family.modalities])
        pieces = split_ids(self._rendered_ids(messages), self._markers)
        if pieces[-1][0] != "text":
            raise ConfigError(
                f"Nothing behind the last {pieces[-1][0]}: expected a question or a chat suffix"
            )
        written = [kind for kind, _ in pieces if kind != "text"]
        if written != [kind for kind, _ in media]:
            raise ConfigError(
                f"The request has the media {[kind for kind, _ in media]} and its rendered text the "
                f"markers of {written}: expected one for each. A text can't hold a marker."
            )
        sources = iter(media)
        chunks = [
            self._text_chunk(ids, tenant)
            if kind == "text"
            else self.media_chunk(*next(sources), tenant=tenant)
            for kind, ids in pieces
        ]
        return Prompt(tuple(chunks[:-1]), chunks[-1])

    def frame(self, question: str, *, tenant: str | None = None) -> tuple[Chunk | None, Chunk]:
        """What the chat template writes around a user turn's media: the pinned prefix, and the tail.

        Raises:
            ConfigError: the template writes no text behind an image, or the question isn't a text or
                holds a marker.
        """
        check_text(question)
        if not self.family.modalities:
            return self._frame_text(question, tenant)
        content = [{"type": self.family.modalities[0].kind}, {"type": "text", "text": question}]
        pieces = split_ids(
            self._rendered_ids([{"role": "user", "content": content}]), self._markers
        )
        kinds = [kind for kind, _ in pieces]
        if kinds[-1] != "text" or len(kinds) - kinds.count("text") != 1:
            raise ConfigError(
                f"Can't frame the question {question!r:.80}: expected the chat template to write one "
                f"marker for one media item and text behind it, got pieces of {kinds}"
            )
        prefix = self._text_chunk(pieces[0][1], tenant) if len(pieces) == 3 else None
        return prefix, self._text_chunk(pieces[-1][1], tenant)

    def _frame_text(self, question: str, tenant: str | None) -> tuple[Chunk | None, Chunk]:
        """The frame of a text model: what stands before the user's words, and they with what follows."""
        rendered = render(self.tokenizer, [{"role": "user", "content": CONTENT}])
        before, found, after = rendered.partition(CONTENT)
        if not found:
            raise ConfigError(
                f"Can't frame the question {question!r:.80}: the chat template leaves the user's words out"
            )
        start = encode(self.tokenizer, before)
        prefix = self._text_chunk(start, tenant) if start else None
        return prefix, self._text_chunk(self._plain_ids(question + after), tenant)

    def text_chunk(self, text: str, *, tenant: str | None = None) -> Chunk:
        """A run of text; special tokens in it are read as such, but for those of media.

        Raises:
            ConfigError: the text makes no token, or holds a media token: it would stand for an image
                that isn't there.
        """
        check_text(text)
        ids = self._plain_ids(text)
        if not ids:
            raise ConfigError(f"Empty text chunk: expected text that makes a token, got {text!r}")
        return self._text_chunk(ids, tenant)

    def image_chunk(self, image: Any, *, tenant: str | None = None) -> Chunk:
        """One image (PIL, or a path) with its wrapper tokens. Doesn't run the vision tower."""
        return self.media_chunk("image", image, tenant=tenant)

    def video_chunk(self, frames: Any, *, fps: Any, tenant: str | None = None) -> Chunk:
        """A video as a list of frames (PIL, or paths), `fps` of **these** to a second, as one chunk."""
        return self.media_chunk("video", Video.of(frames, fps), tenant=tenant)

    def audio_chunk(
        self, audio: Any, *, sampling_rate: Any = None, tenant: str | None = None
    ) -> Chunk:
        """One clip: a path to a WAV file, or mono float32 samples in [-1, 1] and their rate in Hz."""
        return self.media_chunk("audio", Audio(audio, sampling_rate), tenant=tenant)

    def media_chunk(self, kind: str, source: Any, *, tenant: str | None = None) -> Chunk:
        """One media item with its wrapper tokens. Doesn't run its tower.

        Args:
            kind: `image`, `video` or `audio`.
            source: an image or its path, a `Video`, or an `Audio`.

        Raises:
            ConfigError: the model takes no such media, or the source can't be read.
        """
        modality = self.family.modality(kind)
        if modality is None:
            raise ConfigError(
                f"{self.family.model_type} takes no {kind}: expected "
                f"{' or '.join(m.kind for m in self.family.modalities) or 'text: engine.text_chunk(...)'}"
                f", or a model that takes {kind}"
            )
        processor = self.processors.get(kind)
        if processor is None:
            raise ConfigError(
                f"No {kind} processor in the checkpoint: expected its settings beside config.json"
            )
        media, identity = _process(kind, source, processor, modality)
        config = self.backbone.config
        ids = self._plain_ids(modality.expand(media.inputs, config, processor))
        key = ChunkKey(self._model_key, tenant, kind, ids, (identity,))
        return Chunk(key, modality.layout(ids, media.inputs, config), media)

    def see(self, chunk: Chunk) -> Tensor:
        """Run the tower over a media chunk: [placeholders, hidden · (1 + deepstack levels)]."""
        if chunk.media is None:
            raise ConfigError(f"Chunk {chunk.digest[:12]} has no image: expected a media chunk")
        self._num_media_runs += 1
        return self.backbone.see(chunk.key.kind, chunk.media.inputs)

    def room(self, like: ChunkKV, num_tokens: int) -> ChunkKV:
        """Memory for the KV of so many tokens, in which a forward runs in place; not initialised."""
        return kv_cache.room(like, num_tokens)

    def prefill(
        self,
        chunks: Sequence[Chunk],
        vision: Vision,
        *,
        start: int,
        context: Context | None = None,
    ) -> Prefilled:
        """Prefill chunks in one forward at position `start`, behind the placed KV `context`."""
        kv, logits = self.backbone.prefill(*_laid_out(chunks, vision, start), context)
        return Prefilled(kv, logits)

    def is_media(self, chunk: Chunk) -> Bool[Tensor, " T"]:
        """Which of a chunk's tokens stand for media."""
        return self.backbone.is_media(chunk.key.token_ids)

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
        """Run some of a window's tokens in context, against its placed KV; see `OpenEngine`."""
        window = _laid_out(chunks, vision, 0)
        kv, written = in_context.recompute(
            self.backbone, *window, held, rows, keep, inputs=inputs, observe=observe
        )
        return Recomputed(kv, written)

    def layer_inputs(self, chunk: Chunk, vision: Vision, layer: int) -> Float[Tensor, "T hidden"]:
        """The hidden states that reach `layer` when the chunk is prefilled alone."""
        return in_context.layer_inputs(self.backbone, *_laid_out([chunk], vision, 0), layer)

    def generate(
        self, tail: Chunk, *, start: int, context: Context | None, max_new_tokens: int
    ) -> Generated:
        """Prefill the tail behind `context` and decode greedily, positions given explicitly."""
        if tail.media is not None or tail.key.model != self._model_key:
            raise ConfigError(
                f"The tail {tail.digest[:12]} is a {tail.key.kind} chunk of "
                f"{tail.key.model.model_type!r}: expected a text that this engine made"
            )
        if type(max_new_tokens) is not int or max_new_tokens < 1:
            raise ConfigError(
                "Invalid max_new_tokens: expected a whole number of at least 1, got "
                f"{max_new_tokens!r:.80}"
            )
        clock = time.perf_counter()
        cache = kv_cache.write(context, self.backbone.channels)
        step = self.backbone.forward
        first = logits = step(list(tail.key.token_ids), tail.layout.at(start), cache)
        ttft_s = time.perf_counter() - clock
        position, tokens = start + tail.extent, [int(logits.argmax())]
        stops = self._stop_ids()
        while len(tokens) < max_new_tokens and tokens[-1] not in stops:
            at = torch.full((1, self.spec.num_axes), position)
            tokens.append(int(step([tokens[-1]], at, cache).argmax()))
            position += 1
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return Generated(tuple(tokens), text, first, ttft_s)

    def _rendered_ids(self, messages: Sequence[Mapping[str, Any]]) -> Ids:
        rendered = render(self.tokenizer, messages)
        for modality in self.family.modalities:
            before, after = modality.around
            rendered = rendered.replace(modality.marker, f"{before}{modality.marker}{after}")
        return encode(self.tokenizer, rendered)

    def _plain_ids(self, text: str) -> Ids:
        return tuple(self.tokenizer(text, add_special_tokens=False).input_ids)

    def _text_chunk(self, ids: Ids, tenant: str | None) -> Chunk:
        smuggled = self._media_tokens.intersection(ids)
        if smuggled:
            names = self.tokenizer.convert_ids_to_tokens(sorted(smuggled))
            raise ConfigError(
                f"Media tokens {names} in a text: expected them around media alone. Pass images as "
                "image parts, and take these tokens out of users' text."
            )
        key = ChunkKey(self._model_key, tenant, "text", ids)
        return Chunk(key, text_layout(len(ids), self.spec.num_axes))

    def _check_marker(self, modality: Modality, folder: Path) -> None:
        found = self._plain_ids(modality.token)
        wanted = modality.token_id(self.backbone.config)
        if found != (wanted,):
            raise ConfigError(
                f"The tokenizer in {folder} reads {modality.token} as {list(found)}: expected the "
                f"config's {modality.kind}_token_id {wanted}. Its files are missing or another model's."
            )

    def _special_media_ids(self) -> frozenset[int]:
        """What no text may hold: the markers' special tokens, and placeholders that aren't served."""
        special = self.tokenizer.added_tokens_decoder
        marked = {i for ids in self._markers.values() for i in ids if i in special}
        named = (getattr(self.backbone.config, f"{kind}_token_id", None) for kind in MEDIA_KINDS)
        return frozenset(marked | {i for i in named if i is not None})

    def _stop_ids(self) -> set[int]:
        ends = self.model.generation_config.eos_token_id
        ids = ends if isinstance(ends, list) else [ends]
        return {int(i) for i in (*ids, self.tokenizer.eos_token_id) if i is not None}


def _laid_out(
    chunks: Sequence[Chunk], vision: Vision, start: int
) -> tuple[list[int], Tensor, Tensor | None]:
    """Token ids, positions [T, P] and media embeddings of chunks, one behind the other from `start` on."""
    placed = []
    for chunk in chunks:
        placed.append(chunk.layout.at(start))
        start += chunk.extent
    media = [vision[chunk.media.digest] for chunk in chunks if chunk.media is not None]
    ids = [i for chunk in chunks for i in chunk.key.token_ids]
    return ids, torch.cat(placed), torch.cat(media) if media else None


def _process(
    kind: str, source: Any, processor: Any, modality: Modality
) -> tuple[Media, MediaIdentity]:
    if kind == "video":
        return process_video(source, processor, modality)
    if kind == "audio":
        return process_audio(source, processor, modality)
    return process(open_image(source), processor, modality)
