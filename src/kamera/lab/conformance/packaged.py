"""The packaged nano checkpoints as subjects: trained weights, their own tokenizer and processor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from kamera.chunk import Chunk
from kamera.engines.hf.engine import HFEngine
from kamera.lab.conformance.pieces import Piece
from kamera.lab.conformance.plain import Reference
from kamera.lab.conformance.subject import Subject

SIZES = ((84, 56), (56, 84))
"""Width and height in pixels of the noise images A and B."""


def packaged_subjects(folder: Path, dtype: torch.dtype) -> Iterator[tuple[str, Subject]]:
    """One subject, with two images; its chunks are made by the engine."""
    name = str(dtype).removeprefix("torch.")
    engine = HFEngine.from_pretrained(folder, dtype=name)
    chunks = [
        engine.text_chunk("what color"),
        *(engine.image_chunk(_noise(seed)) for seed in range(2)),
        engine.text_chunk("is the shape?"),
    ]
    window = [_piece(engine, chunk) for chunk in chunks]
    yield "image", Subject(Reference.of(engine), window)


def _noise(seed: int) -> Image.Image:
    width, height = SIZES[seed]
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def _piece(engine: HFEngine, chunk: Chunk) -> Piece:
    kind, ids = chunk.key.kind, chunk.key.token_ids
    modality = engine.family.modality(kind)
    if chunk.media is None or modality is None:
        return Piece(ids, chunk.layout)
    placeholder = modality.token_id(engine.backbone.config)
    return Piece(ids, chunk.layout, kind, placeholder, chunk.media.inputs)
