"""`HFEngine`: any supported checkpoint, through Transformers' own model and processor classes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer
from transformers.modeling_outputs import BaseModelOutputWithPooling

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.engines.contract import Generated, Prefilled, Prompt, Vision
from kamera.engines.hf import cache as kv_cache
from kamera.engines.hf.chat import check_text, images_of, split_text
from kamera.engines.hf.families import FAMILIES, family_of
from kamera.engines.hf.identity import model_key
from kamera.engines.hf.images import open_image, process
from kamera.errors import ConfigError, UnsupportedModelError
from kamera.identity import ChunkKey, ModelKey
from kamera.positions import text_layout
from kamera.rope import RopeSpec, read_rope_spec


class HFEngine:
    """A loaded model, its tokenizer and its image processor. See `kamera.engines.contract`."""

    def __init__(self, model: Any, tokenizer: Any, images: Any, folder: Path) -> None:
        self.model, self.tokenizer, self.images = model.eval(), tokenizer, images
        self.family = family_of(model.config)
        self._merge = model.config.vision_config.spatial_merge_size
        self._spec = read_rope_spec(model.model.language_model.rotary_emb, model.config.text_config)
        self._model_key = model_key(model, folder, self._spec)
        self._num_vision_runs = 0
        self._wrapper = tuple(
            tokenizer.convert_tokens_to_ids(token)
            for token in (self.family.vision_start, self.family.image_pad, self.family.vision_end)
        )
        if self._wrapper[1] != model.config.image_token_id:
            raise ConfigError(
                f"The tokenizer in {folder} reads {self.family.image_pad} as {self._wrapper[1]}: expected "
                f"the config's image_token_id {model.config.image_token_id}. Its files are missing or "
                "another model's."
            )
        self._vision_tokens = frozenset((*self._wrapper, model.config.video_token_id))

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, *, dtype: str = "auto", device: str = "cpu"
    ) -> HFEngine:
        """Load a checkpoint from a local folder.

        Raises:
            ConfigError: the folder isn't a checkpoint, or there is no such dtype or device.
            UnsupportedModelError: its model type, rotary scheme or layers can't be served.
        """
        path = Path(folder)
        if not (path / "config.json").is_file():
            raise ConfigError(
                f"No checkpoint in {path}: expected a folder with config.json, weights, tokenizer and "
                "image processor files"
            )
        try:
            config = AutoConfig.from_pretrained(path)
        except (ValueError, OSError, KeyError, TypeError, AttributeError) as error:
            raise UnsupportedModelError(
                f"Transformers can't read {path / 'config.json'}: expected one of the model types "
                f"{sorted(FAMILIES)}; it said: {str(error).splitlines()[0]}"
            ) from error
        family_of(config)
        try:
            model = AutoModelForImageTextToText.from_pretrained(path, dtype=dtype)
            tokenizer = AutoTokenizer.from_pretrained(path)
            images = AutoImageProcessor.from_pretrained(path, backend="pil")
        except (ValueError, OSError, KeyError, AttributeError, SafetensorError) as error:
            raise ConfigError(f"Can't load the checkpoint in {path}: {error}") from error
        try:
            model = model.to(device)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(
                f"Can't use the device {device!r}: {str(error).splitlines()[0]}"
            ) from error
        return cls(model, tokenizer, images, path)

    @property
    def model_key(self) -> ModelKey:
        """All that decides the KV bytes."""
        return self._model_key

    @property
    def spec(self) -> RopeSpec:
        """The model's rotary scheme."""
        return self._spec

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return torch.device(self.model.device)

    @property
    def num_vision_runs(self) -> int:
        """Images that the vision tower ran over since the engine was made."""
        return self._num_vision_runs

    def prompt(self, messages: Sequence[Mapping[str, Any]], *, tenant: str | None = None) -> Prompt:
        """Split a chat request into chunks, wrapper tokens included, and a tail.

        Raises:
            ConfigError: messages of another form, nothing behind the last image, or a part that isn't
                text or an image.
        """
        images = images_of(messages)
        rendered = self.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
        wrapped = self.family.vision_start + self.family.image_pad + self.family.vision_end
        pieces = split_text(rendered, self.family)
        if pieces[-1] == wrapped:
            raise ConfigError("Nothing behind the last image: expected a question or a chat suffix")
        if pieces.count(wrapped) != len(images):
            raise ConfigError(
                f"The request has {len(images)} images and its rendered text {pieces.count(wrapped)} of "
                f"{wrapped}: expected one for each. A text can't hold it."
            )
        pictures = iter(images)
        chunks = [
            self.image_chunk(next(pictures), tenant=tenant)
            if piece == wrapped
            else self.text_chunk(piece, tenant=tenant)
            for piece in pieces
        ]
        return Prompt(tuple(chunks[:-1]), chunks[-1])

    def frame(self, question: str, *, tenant: str | None = None) -> tuple[Chunk | None, Chunk]:
        """What the chat template writes around a user turn's images: the pinned prefix, and the tail.

        Raises:
            ConfigError: the template writes no text behind an image, or the question isn't a text or
                holds a wrapper.
        """
        check_text(question)
        content = [{"type": "image"}, {"type": "text", "text": question}]
        rendered = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        wrapped = self.family.vision_start + self.family.image_pad + self.family.vision_end
        before, found, after = rendered.partition(wrapped)
        if not found or not after or wrapped in after:
            raise ConfigError(
                f"Can't frame the question {question!r:.80}: expected the chat template to write one "
                f"{wrapped} and text behind it, got {rendered!r:.200}"
            )
        prefix = self.text_chunk(before, tenant=tenant) if before else None
        return prefix, self.text_chunk(after, tenant=tenant)

    def text_chunk(self, text: str, *, tenant: str | None = None) -> Chunk:
        """A run of text; special tokens in it are read as such, but for those of vision.

        Raises:
            ConfigError: the text makes no token, or holds a vision token: it would stand for an image
                that isn't there.
        """
        check_text(text)
        ids = tuple(self.tokenizer(text, add_special_tokens=False).input_ids)
        if not ids:
            raise ConfigError(f"Empty text chunk: expected text that makes a token, got {text!r}")
        smuggled = self._vision_tokens.intersection(ids)
        if smuggled:
            names = self.tokenizer.convert_ids_to_tokens(sorted(smuggled))
            raise ConfigError(
                f"Vision tokens {names} in a text: expected them around images alone. Pass images as "
                "image parts, and take these tokens out of users' text."
            )
        key = ChunkKey(self._model_key, tenant, "text", ids)
        return Chunk(key, text_layout(len(ids), self._spec.num_axes))

    def image_chunk(self, image: Any, *, tenant: str | None = None) -> Chunk:
        """One image (PIL, or a path) with its wrapper tokens. Doesn't run the vision tower."""
        pixels, identity = process(open_image(image), self.images)
        height, width = self.family.merged_grid(pixels.grid, self._merge)
        start, pad, end = self._wrapper
        ids = (start, *[pad] * (height * width), end)
        key = ChunkKey(self._model_key, tenant, "image", ids, (identity,))
        return Chunk(key, self.family.image_layout(pixels.grid, self._merge), pixels)

    @torch.inference_mode()
    def see(self, chunk: Chunk) -> Tensor:
        """Run the vision tower over an image chunk: [tokens, hidden]."""
        if chunk.pixels is None:
            raise ConfigError(f"Chunk {chunk.digest[:12]} has no image: expected an image chunk")
        self._num_vision_runs += 1
        values = chunk.pixels.values.to(self.model.device)
        grid = torch.tensor([chunk.pixels.grid], device=self.model.device)
        features: Tensor = self.model.model.get_image_features(values, grid).pooler_output[0]
        return features.clone()

    @torch.inference_mode()
    def prefill(
        self,
        chunks: Sequence[Chunk],
        vision: Vision,
        *,
        start: int,
        context: ChunkKV | None = None,
    ) -> Prefilled:
        """Prefill chunks in one forward at position `start`, behind the placed KV `context`."""
        cache = kv_cache.write(context)
        logits = self._forward(chunks, vision, start, cache)
        past = 0 if context is None else context.num_tokens
        return Prefilled(kv_cache.read(cache, past), logits)

    @torch.inference_mode()
    def generate(
        self, tail: Chunk, *, start: int, context: ChunkKV | None, max_new_tokens: int
    ) -> Generated:
        """Prefill the tail behind `context` and decode greedily, positions given explicitly."""
        if type(max_new_tokens) is not int or max_new_tokens < 1:
            raise ConfigError(f"Invalid max_new_tokens: expected at least 1, got {max_new_tokens}")
        clock = time.perf_counter()
        cache = kv_cache.write(context)
        first = logits = self._forward([tail], {}, start, cache)
        ttft_s = time.perf_counter() - clock
        position, tokens = start + tail.extent, [int(logits.argmax())]
        while len(tokens) < max_new_tokens and tokens[-1] not in self._stop_ids():
            ids = torch.tensor([[tokens[-1]]], device=self.model.device)
            at = torch.full((self._spec.num_axes, 1, 1), position, device=self.model.device)
            logits = self.model(input_ids=ids, position_ids=at, cache=cache, use_cache=True).logits
            tokens.append(int(logits[0, -1].argmax()))
            position += 1
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return Generated(tuple(tokens), text, first, ttft_s)

    def _forward(self, chunks: Sequence[Chunk], vision: Vision, start: int, cache: Any) -> Tensor:
        """One forward over the chunks; the last token's logits, float32."""
        device = self.model.device
        ids = torch.tensor([[i for chunk in chunks for i in chunk.key.token_ids]], device=device)
        placed = []
        for chunk in chunks:
            placed.append(chunk.layout.at(start))
            start += chunk.extent
        positions = torch.cat(placed).T[:, None].to(device)
        pictures = [vision[chunk.pixels.digest] for chunk in chunks if chunk.pixels is not None]
        seen = {"image": BaseModelOutputWithPooling(pooler_output=pictures)} if pictures else None
        out = self.model(
            input_ids=ids,
            position_ids=positions,
            cache=cache,
            use_cache=True,
            mm_encoder_outputs=seen,
            logits_to_keep=1,
        )
        logits: Tensor = out.logits[0, -1].float()
        return logits

    def _stop_ids(self) -> set[int]:
        ends = self.model.generation_config.eos_token_id
        ids = ends if isinstance(ends, list) else [ends]
        return {int(i) for i in (*ids, self.tokenizer.eos_token_id) if i is not None}
