"""`Entry`: one line of the matrix, a tiny random model or a packaged checkpoint, ready to be loaded."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import transformers

import kamera
from kamera.engines.hf.backbone import Backbone
from kamera.engines.hf.engine import HFEngine
from kamera.engines.hf.families import FAMILIES, family_of
from kamera.engines.hf.loading import Checkpoint
from kamera.lab.conformance.build import build_model
from kamera.lab.conformance.case import Case
from kamera.lab.conformance.models import CASES
from kamera.lab.conformance.packaged import packaged_subjects
from kamera.lab.conformance.pieces import Piece, media_piece, text_piece
from kamera.lab.conformance.plain import Reference
from kamera.lab.conformance.subject import Subject
from kamera.lab.conformance.vocabulary import Characters

Subjects = Iterator[tuple[str, Subject]]
"""(kind of chunk B, subject), one for each kind, over one model."""


@dataclass(frozen=True)
class Entry:
    """A model of the matrix.

    Attributes:
        model_type: names the family's row.
        weights: `random`, or a packaged checkpoint's name.
        variant: what sets it apart from the family's other entries, besides its rotary scheme.
        subjects: loads it in a dtype.
    """

    model_type: str
    weights: str
    variant: str
    subjects: Callable[[torch.dtype], Subjects]

    @property
    def model_class(self) -> str:
        """The class that the family's row names; empty where there is no row."""
        family = FAMILIES.get(self.model_type)
        return family.model_class if family else ""

    @property
    def name(self) -> str:
        """For people: progress and the names of tests."""
        return " ".join(part for part in (self.model_type, self.variant, self.weights) if part)


def entries() -> list[Entry]:
    """Every tiny case, then every packaged checkpoint."""
    tiny = [
        Entry(case.model_type, "random", case.variant, partial(tiny_subjects, case))
        for case in CASES
    ]
    return [*tiny, *(_packaged(name) for name in kamera.packaged_models())]


def _packaged(name: str) -> Entry:
    folder = kamera.packaged_model(name)
    config = json.loads((folder / "config.json").read_text())
    return Entry(config["model_type"], name, "", partial(packaged_subjects, folder))


def tiny_subjects(case: Case, dtype: torch.dtype) -> Subjects:
    """One model, a window for each kind of chunk that it takes."""
    engine = tiny_engine(case, dtype)
    reference = Reference.of(engine, case.join)
    for kind in case.kinds:
        window = window_of(case, engine.backbone, kind)
        yield kind, Subject(reference, window, counts=case.counts)


def tiny_engine(case: Case, dtype: torch.dtype) -> HFEngine:
    """The case's model, saved and loaded as a checkpoint would be: that decides what stays float32."""
    model = build_model(case)
    family = family_of(model.config)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(Path(folder))
        model = type(model).from_pretrained(Path(folder), dtype=dtype)
        backbone = Backbone(model, family)
        return HFEngine(Checkpoint(backbone, Characters(), {}, Path(folder)))


def window_of(case: Case, backbone: Backbone, kind: str) -> list[Piece]:
    """Prefix, A, B, tail. A is of the first kind that the model takes, B of the one asked for."""
    first = next(iter(case.media), "text")
    if kind != "text" and not case.mixes:
        first = kind
    chunks = [piece_of(case, backbone, name, seed) for seed, name in enumerate((first, kind))]
    num_axes = backbone.rope.num_axes
    return [text_piece("look:", num_axes), *chunks, text_piece("which?", num_axes)]


def piece_of(case: Case, backbone: Backbone, kind: str, seed: int) -> Piece:
    """One chunk: A is seed 0, B seed 1."""
    if kind == "text":
        return text_piece(("first the red one", "then two blue ones")[seed], backbone.rope.num_axes)
    inputs = case.media[kind](backbone.config, seed)
    return media_piece(backbone.family, kind, backbone.config, inputs)
