"""The packaged nano checkpoints as subjects: trained weights, their own tokenizer and processor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from kamera.engines.hf.images import process
from kamera.engines.hf.loading import Checkpoint, load
from kamera.lab.conformance.pieces import Piece
from kamera.lab.conformance.plain import Reference
from kamera.lab.conformance.subject import Subject
from kamera.positions import text_layout

SIZES = ((84, 56), (56, 84))
"""Width and height in pixels of the noise images A and B."""


def packaged_subjects(folder: Path, dtype: torch.dtype) -> Iterator[tuple[str, Subject]]:
    """One subject, with two images."""
    name = str(dtype).removeprefix("torch.")
    checkpoint = load(folder, dtype=name, device="cpu")
    window = [
        _text(checkpoint, "what color"),
        *(_image(checkpoint, seed) for seed in range(2)),
        _text(checkpoint, "is the shape?"),
    ]
    yield "image", Subject(Reference.of(checkpoint.backbone), window)


def _text(checkpoint: Checkpoint, text: str) -> Piece:
    ids = tuple(checkpoint.tokenizer(text, add_special_tokens=False).input_ids)
    return Piece(ids, text_layout(len(ids), checkpoint.backbone.rope.num_axes))


def _image(checkpoint: Checkpoint, seed: int) -> Piece:
    width, height = SIZES[seed]
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
    modality = checkpoint.backbone.family.modality("image")
    if modality is None:
        raise ValueError(f"{checkpoint.folder.name} takes no image: its family's row lacks it")
    processor, config = checkpoint.processors["image"], checkpoint.backbone.config
    inputs = process(Image.fromarray(pixels), processor, modality)[0].inputs
    text = modality.expand(inputs, config, processor)
    ids = tuple(checkpoint.tokenizer(text, add_special_tokens=False).input_ids)
    layout = modality.layout(ids, inputs, config)
    return Piece(ids, layout, "image", modality.token_id(config), inputs)
