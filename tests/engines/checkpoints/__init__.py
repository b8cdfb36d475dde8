"""Whole checkpoints of tiny random models: those of the conformance suite, with what stands around them.

checkpoint  a row: the model, its tokens, its files; and how a folder is written
templates   chat templates
tokenizer   a byte-pair tokenizer with a row's special tokens
texts       the text models
one_axis    the families with images and one position axis
mrope       the M-RoPE families
"""

from pathlib import Path

from checkpoints.checkpoint import Checkpoint
from checkpoints.mrope import MROPE
from checkpoints.one_axis import IMAGES
from checkpoints.texts import TEXTS

ONE_AXIS: dict[str, Checkpoint] = {**TEXTS, **IMAGES}
ALL: dict[str, Checkpoint] = {**ONE_AXIS, **MROPE}


def build(name: str, folder: Path, seed: int = 1) -> Path:
    """Write the whole checkpoint of this name."""
    return ALL[name].save(folder, seed)


__all__ = ["IMAGES", "MROPE", "ONE_AXIS", "Checkpoint", "build"]
