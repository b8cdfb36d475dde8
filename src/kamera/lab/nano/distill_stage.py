"""A new tower learns to give the frozen teacher's embeddings for the same frames.

Targets are the teacher's merged tokens, brought to zero mean and unit deviation while training (the last
linear layers are folded back at the end), plus a smaller loss on what every token shows, so that what the
language model needs (a handwritten digit) isn't lost among what has more variance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kamera.lab.nano.family import Family
from kamera.lab.nano.frame_pool import HEADS
from kamera.lab.nano.vision_stage import loss_and_hits

FLOOR = 0.5
"""Deviations below this, in the teacher's own units, don't survive the language stage's noise."""


@dataclass(frozen=True)
class Lesson:
    """Frames of one size with the teacher's embeddings and the dense labels of every merged token.

    `images`: uint8 `[num_frames, size, size, 3]`; `targets`: `[num_frames, tokens, width]`.
    """

    images: Tensor
    targets: Tensor
    labels: dict[str, Tensor]

    def rows(self, chosen: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        labels = {name: value[chosen] for name, value in self.labels.items()}
        return self.images[chosen], self.targets[chosen], labels


@dataclass(frozen=True)
class Scale:
    """What takes targets to zero mean and unit deviation, and errors to the targets' own directions.

    `whiten` `[width, width]` divides an error by the targets' deviation along each principal direction:
    colors have most of the variance, digits matter as much.
    """

    mean: Tensor
    std: Tensor
    whiten: Tensor

    @classmethod
    def of(cls, targets: Sequence[Tensor]) -> Scale:
        rows = torch.cat([target.flatten(0, 1)[::7] for target in targets])
        mean = rows.mean(0)
        values, vectors = torch.linalg.eigh((rows - mean).T.double() @ (rows - mean).double())
        variance = (values / len(rows)).clamp_min(0)
        whiten = (vectors / (variance + FLOOR**2).sqrt()).float()
        return cls(mean, rows.std(0).clamp_min(FLOOR), whiten)

    def error(self, features: Tensor, targets: Tensor) -> Tensor:
        """Mean over tokens of the whitened square error, a direction: about 1 for a constant guess."""
        missed = features * self.std + self.mean - targets
        return (missed @ self.whiten).square().sum(-1).mean() / self.width

    @property
    def width(self) -> int:
        """Directions that hold anything."""
        return int((self.whiten.norm(dim=0) < 0.7 / FLOOR).sum())

    @torch.no_grad()
    def fold(self, layers: Sequence[Any], *, inverse: bool) -> None:
        """Into the last linear layers: out = normalised * std + mean, or its inverse."""
        width = layers[0].out_features
        for layer, mean, std in zip(
            layers, torch.split(self.mean, width), torch.split(self.std, width), strict=True
        ):
            if inverse:
                layer.weight.div_(std[:, None])
                layer.bias.sub_(mean).div_(std)
            else:
                layer.weight.mul_(std[:, None])
                layer.bias.mul_(std).add_(mean)


@dataclass(frozen=True)
class Lessons:
    """What a phase teaches: `count` frames of every lesson a step, so that each step hears of all.

    `imitation` weighs the error to the teacher's embeddings, `naming` what every token shows.
    """

    lessons: Sequence[Lesson]
    counts: Sequence[int]
    steps: int
    rate: float
    imitation: float = 1.0
    naming: float = 0.3


def distill(
    model: Any,
    family: Family,
    phases: Sequence[Lessons],
    held_out: Sequence[Lesson],
    scale: Scale,
    *,
    seed: int,
    on_check: Callable[[], None] | None = None,
) -> None:
    """Train the tower in place; prints the error and the held-out accuracy as it goes."""
    torch.manual_seed(seed)
    layers = family.last_layers(model)
    scale.fold(layers, inverse=True)
    heads = nn.ModuleDict(
        {name: nn.Linear(len(scale.mean), count) for name, count in HEADS.items()}
    )
    tower = [p for module in family.tower_modules(model) for p in module.parameters()]
    parameters = [*tower, *heads.parameters()]
    optimizer = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.05)
    start = time.monotonic()
    for number, phase in enumerate(phases):
        for step in range(phase.steps):
            cosine = 0.5 * (1 + math.cos(math.pi * step / phase.steps))
            for group in optimizer.param_groups:
                group["lr"] = phase.rate * min(1.0, (step + 1) / 50) * (0.02 + 0.98 * cosine)
            loss = _step_loss(model, family, heads, phase, scale)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            if step % 100 == 99 or step + 1 == phase.steps:
                clock = f"{time.monotonic() - start:.0f}s"
                report = check(model, family, heads, held_out, scale)
                print(f"tower {number}:{step + 1}/{phase.steps} {clock} {report}", flush=True)
                if on_check is not None and step % 500 == 499:
                    on_check()
    scale.fold(layers, inverse=False)


def _step_loss(
    model: Any, family: Family, heads: nn.ModuleDict, phase: Lessons, scale: Scale
) -> Tensor:
    total = torch.zeros(())
    for lesson, count in zip(phase.lessons, phase.counts, strict=True):
        if count:
            chosen = torch.randint(len(lesson.images), (count,))
            error, asked, _ = _losses(model, family, heads, lesson.rows(chosen), scale)
            total = total + phase.imitation * error + phase.naming * asked
    return total


def _losses(
    model: Any,
    family: Family,
    heads: nn.ModuleDict,
    batch: tuple[Tensor, Tensor, dict[str, Tensor]],
    scale: Scale,
) -> tuple[Tensor, Tensor, dict[str, float]]:
    images, targets, labels = batch
    features = family.embed(model, images)
    error = scale.error(features, targets)
    asked, hits = loss_and_hits(heads, features, labels)
    return error, asked, hits


@torch.no_grad()
def check(
    model: Any, family: Family, heads: nn.ModuleDict, held_out: Sequence[Lesson], scale: Scale
) -> str:
    """The normalised error and the accuracy by label, on some held-out frames of each lesson."""
    errors, seen = [], {}
    for lesson in held_out:
        rows = torch.arange(0, len(lesson.images), max(1, len(lesson.images) // 90))
        error, _, hits = _losses(model, family, heads, lesson.rows(rows), scale)
        errors.append(float(error))
        seen.update(hits)
    said = " ".join(f"{name} {hit:.3f}" for name, hit in seen.items())
    return f"error {' '.join(f'{e:.3f}' for e in errors)} | held out {said}"
