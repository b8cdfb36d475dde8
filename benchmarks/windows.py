"""The windows that `bench_ttft` and `bench_amortise` serve: real text weights, real image shapes.

smollm2     SmolLM2-135M-Instruct's own weights in bfloat16 (30 layers, 9 query and 3 KV heads of 64), this
            project's documentation as text, chunks of 256 tokens behind the chat template's prefix.
qwen2.5-vl  Qwen2.5-VL-3B's layers (hidden 2048, 16 query and 2 KV heads of 128, MLP 11008) with random
            weights, as many of the 36 as are asked for; the vocabulary is cut in the same proportion, so that
            the head weighs what it weighs there. A chunk is an image of 16 x 16 tokens between its two
            wrapper tokens, at M-RoPE positions; the embeddings are random, and no arm runs the tower.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kamera.chunk import Chunk, Media
from kamera.engines.hf import HFEngine
from kamera.identity import ChunkKey, MediaIdentity
from kamera.patch import KNEE
from kamera.positions import text_layout, wrapped_media_layout
from kamera.session import Session, SessionSettings
from kamera.store import open_store

ROOT = Path(__file__).resolve().parents[1]
CHUNK_TOKENS = 256
GRID = 16
QWEN_LAYERS, QWEN_VOCABULARY = 36, 151_936
PATCH = str(KNEE)
"""The default, in words."""
QUESTION = "What does this part say about the cache?"


@dataclass(frozen=True, eq=False)
class Subject:
    """An engine with chunks to fill windows with.

    Attributes:
        chunks: enough for the longest window, all different; `other` is in none of them.
        vision: embeddings by media digest.
    """

    name: str
    engine: HFEngine
    chunks: tuple[Chunk, ...]
    other: Chunk
    vision: dict[str, Tensor] = field(default_factory=dict)

    def window(self, num_chunks: int) -> Window:
        """The pinned prefix, the first chunks, and the question."""
        prefix, tail = self.engine.frame(QUESTION)
        assert prefix is not None
        return Window(self, prefix, self.chunks[:num_chunks], tail)

    def session(self) -> Session:
        """Over a store in memory that holds the vision embeddings, and nothing else yet.

        A window that is asked for again as it was needs no patches for leading it.
        """
        settings = SessionSettings(patch=PATCH, form_leading=False)
        session = Session(self.engine, open_store(None), settings)
        for chunk in (*self.chunks, self.other):
            if chunk.media is not None:
                session.library.keep_vision(chunk, self.vision[chunk.media.digest])
        return session


@dataclass(frozen=True, eq=False)
class Window:
    """One request: prefix, chunks, question."""

    subject: Subject
    prefix: Chunk
    chunks: tuple[Chunk, ...]
    tail: Chunk

    @property
    def cached(self) -> tuple[Chunk, ...]:
        """All in front of the question."""
        return (self.prefix, *self.chunks)

    @property
    def num_cached(self) -> int:
        """Tokens in front of the question."""
        return sum(chunk.num_tokens for chunk in self.cached)

    @property
    def tail_start(self) -> int:
        """The question's first position."""
        return sum(chunk.extent for chunk in self.cached)

    def inputs(self, chunks: Sequence[Chunk], start: int = 0) -> tuple[list[int], Tensor, Any]:
        """Token ids, positions and media embeddings of chunks that stand one behind the other."""
        placed = []
        for chunk in chunks:
            placed.append(chunk.layout.at(start))
            start += chunk.extent
        media = [self.subject.vision[c.media.digest] for c in chunks if c.media is not None]
        ids = [i for chunk in chunks for i in chunk.key.token_ids]
        return ids, torch.cat(placed), torch.cat(media) if media else None


def smollm2(num_chunks: int) -> Subject | None:
    """None, after a line that says so, where its packages aren't installed."""
    from kamera.lab.smollm2 import HOW, is_installed, smollm2_checkpoint

    if not is_installed():
        print(f"SmolLM2-135M is left out: {HOW}", flush=True)
        return None
    folder = smollm2_checkpoint(ROOT / "build" / "models")
    engine = HFEngine.from_pretrained(folder, dtype="bfloat16")
    pages = [ROOT / "LICENSE", *sorted((ROOT / "docs").glob("*.md"))]
    text = "\n\n".join(page.read_text(encoding="utf-8") for page in pages)[
        : 12_000 * (num_chunks // 8 + 1)
    ]
    ids = engine.tokenizer(text, add_special_tokens=False, verbose=False).input_ids
    runs = [
        tuple(ids[start : start + CHUNK_TOKENS])
        for start in range(0, (num_chunks + 1) * CHUNK_TOKENS, CHUNK_TOKENS)
    ]
    assert len(runs[-1]) == CHUNK_TOKENS
    chunks = [
        Chunk(ChunkKey(engine.model_key, None, "text", run), text_layout(len(run), 1))
        for run in runs
    ]
    return Subject("smollm2", engine, tuple(chunks[:-1]), chunks[-1])


def qwen_shapes(num_chunks: int, num_layers: int) -> Subject:
    """Random weights in bfloat16; the tokenizer is that of the packaged model of the same family."""
    engine = HFEngine(_checkpoint(num_layers))
    generator = torch.Generator().manual_seed(0)
    hidden = engine.backbone.text_config.hidden_size
    chunks, vision = [], {}
    for number in range(num_chunks + 1):
        chunk = _image(engine, number)
        assert chunk.media is not None
        embeddings = torch.randn(GRID * GRID, hidden, generator=generator)
        vision[chunk.media.digest] = embeddings.bfloat16()
        chunks.append(chunk)
    return Subject(
        f"qwen2.5-vl, {num_layers} layers", engine, tuple(chunks[:-1]), chunks[-1], vision
    )


def _checkpoint(num_layers: int) -> Any:
    import transformers

    import kamera
    from kamera.engines.hf.backbone import Backbone
    from kamera.engines.hf.families import family_of
    from kamera.engines.hf.loading import Checkpoint, load

    nano = load(kamera.packaged_model("nano-gqa"), dtype="bfloat16", device="cpu")
    config = copy.deepcopy(nano.backbone.config)
    text = config.text_config
    text.hidden_size, text.intermediate_size = 2048, 11_008
    text.num_attention_heads, text.num_key_value_heads = 16, 2
    text.num_hidden_layers, text.max_window_layers = num_layers, num_layers
    text.layer_types = ["full_attention"] * num_layers
    text.vocab_size = QWEN_VOCABULARY * num_layers // QWEN_LAYERS
    text.head_dim = 128
    text.rope_parameters = {
        "rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24],
    }  # fmt: skip
    text.tie_word_embeddings = config.tie_word_embeddings = True
    config.vision_config.out_hidden_size = 2048
    torch.manual_seed(0)
    model_class = getattr(transformers, family_of(config).model_class)
    model = model_class._from_config(config, dtype=torch.bfloat16)
    # The folder names the weights, which decide nothing here: no store outlives the run.
    return Checkpoint(
        Backbone(model, nano.backbone.family), nano.tokenizer, nano.processors, nano.folder
    )


def _image(engine: HFEngine, number: int) -> Chunk:
    config = engine.backbone.config
    ids = (
        config.vision_start_token_id,
        *[config.image_token_id] * (GRID * GRID),
        config.vision_end_token_id,
    )
    identity = MediaIdentity({"pixels": torch.tensor([number])}, {})
    key = ChunkKey(engine.model_key, None, "image", ids, (identity,))
    return Chunk(key, wrapped_media_layout((0,), GRID, GRID, 1, 1), Media({}, identity.digest))
