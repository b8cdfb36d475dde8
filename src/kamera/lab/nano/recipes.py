"""How each checkpoint is trained: its steps, rates, and which of nano-gqa it begins with.

The packaged checkpoints were made by these phases in several sittings, with seeds and pools of their own:
each one's page has the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kamera.lab.nano.clip_start import learn_layer, learn_projector, start_clip
from kamera.lab.nano.distill_stage import Lesson, Lessons, Scale, distill
from kamera.lab.nano.family import Family
from kamera.lab.nano.language_stage import train_language
from kamera.lab.nano.lessons import (
    HELD_OUT,
    PARTS,
    PER_SIDE,
    WHOLE,
    adapted,
    draw_pools,
    mosaic,
    taught,
)
from kamera.lab.nano.levels import projections
from kamera.lab.nano.sequences import Layout, Sampler
from kamera.lab.nano.warm_start import start_language, start_tower

KINDS = ("tile", "half", "more tile", "more half", "legend", "item", "needle", "shell")


@dataclass(frozen=True)
class Course:
    """One phase of the tower: how many frames a step, of each of KINDS."""

    counts: tuple[int, ...]
    steps: int
    rate: float


@dataclass(frozen=True)
class Recipe:
    """One checkpoint's training.

    `imitation` and `naming` weigh the two losses of the tower. `layer_steps`: a CLIP tower's layers and its
    projector learn by themselves first, one after another.
    """

    language_steps: int
    tuning_steps: int
    courses: tuple[Course, ...]
    imitation: float = 0.5
    naming: float = 0.3
    layer_steps: tuple[int, ...] = ()
    language_rate: float = 1.5e-3
    tuning_rate: float = 7e-4
    tokens: int = 3000


RECIPES = {
    "mha": Recipe(
        language_steps=1500,
        tuning_steps=1080,
        courses=(
            Course((0, 0, 0, 0, 10, 10, 10, 6), 200, 3e-4),
            Course((0, 0, 0, 0, 10, 14, 12, 5), 480, 7e-4),
            Course((0, 0, 0, 0, 10, 14, 12, 5), 1700, 7e-4),
            Course((0, 0, 0, 0, 9, 10, 18, 4), 800, 6e-4),
        ),
        imitation=1.0,
        naming=1.0,
        layer_steps=(350, 300, 300, 400),
    ),
    "mla": Recipe(
        language_steps=1000,
        tuning_steps=1090,
        courses=(
            Course((64, 24, 0, 0, 4, 3, 4, 6), 350, 1e-3),
            Course((48, 10, 0, 0, 6, 5, 6, 8), 500, 1e-3),
            Course((0, 0, 112, 14, 5, 2, 5, 3), 380, 8e-4),
            Course((0, 0, 112, 14, 5, 2, 5, 3), 1200, 1e-3),
            Course((0, 0, 32, 8, 10, 6, 10, 4), 400, 5e-4),
        ),
    ),
    "deepstack": Recipe(
        language_steps=500,
        tuning_steps=800,
        courses=(
            Course((0, 0, 112, 14, 5, 2, 5, 3), 480, 1e-3),
            Course((0, 0, 112, 14, 5, 2, 5, 3), 1500, 1e-3),
            Course((0, 0, 32, 8, 10, 6, 10, 4), 500, 5e-4),
        ),
    ),
}


class Trainee:
    """A new model beside its teacher, and the frames that both see.

    `share` shortens everything, for a trial: steps and frames.
    """

    def __init__(
        self, family: Family, model: Any, tokenizer: Any, *, seed: int, share: float = 1.0
    ) -> None:
        self.family, self.model, self.tokenizer = family, model, tokenizer
        self.recipe, self.seed, self.share = RECIPES[family.name], seed, share

    def learn(self, teacher: Any, teacher_tokenizer: Any) -> None:
        """Language on the teacher's embeddings, then the tower, then language on the tower's own."""
        pools = draw_pools(WHOLE, seed=self.seed, share=self.share)
        lessons = {name: taught(teacher, pool) for name, pool in pools.items()}
        onto = self._levels(lessons)
        adapted_lessons = {k: adapted(v, self.family, onto) for k, v in lessons.items()}
        start_language(self.model, self.tokenizer, teacher, teacher_tokenizer)
        given = {name: lesson.targets for name, lesson in adapted_lessons.items()}
        self.language(
            pools, given, self.recipe.language_steps, self.recipe.language_rate, self.seed
        )
        self.tower(teacher, adapted_lessons, onto)
        if self.recipe.tuning_steps:
            own = {name: self._own(lesson) for name, lesson in adapted_lessons.items()}
            rate = self.recipe.tuning_rate
            self.language(pools, own, self.recipe.tuning_steps, rate, self.seed + 1)

    def _levels(self, lessons: dict[str, Lesson]) -> list[torch.Tensor]:
        if len(self.family.last) == 1:
            return []
        shown = [lessons[name] for name in ("legend", "item", "needle")]
        return projections([one.targets for one in shown], [one.labels for one in shown])

    def _steps(self, steps: int) -> int:
        return max(2, round(steps * self.share))

    @torch.no_grad()
    def _own(self, lesson: Lesson) -> torch.Tensor:
        parts = lesson.images.split(50)  # type: ignore[no-untyped-call]
        return torch.cat([self.family.embed(self.model, part) for part in parts])

    def language(
        self,
        pools: dict[str, Any],
        embeddings: dict[str, torch.Tensor],
        steps: int,
        rate: float,
        seed: int,
    ) -> None:
        """The language stage on these embeddings of the pools' frames."""
        seen = {k: Seen(pools[k].frames, embeddings[k]) for k in pools}
        train_language(
            self.model,
            Sampler(seen, np.random.default_rng(seed + 20)),
            Layout(self.tokenizer, seen, self.family),
            steps=self._steps(steps),
            seed=seed,
            rate=rate,
            tokens=self.recipe.tokens,
        )

    def tower(self, teacher: Any, whole: dict[str, Lesson], onto: Sequence[torch.Tensor]) -> None:
        """The tower learns to give the teacher's embeddings."""
        lessons = [*self._parts(teacher, onto), *whole.values()]
        held = draw_pools(HELD_OUT, seed=self.seed, share=self.share)
        held_out = [adapted(taught(teacher, pool), self.family, onto) for pool in held.values()]
        start_tower(self.model, teacher, onto)
        scale = Scale.of([lesson.targets for lesson in whole.values()])
        if self.recipe.layer_steps:
            self._start_clip(lessons, scale)
        phases = [self._phase(lessons, course) for course in self.recipe.courses]
        distill(self.model, self.family, phases, held_out, scale, seed=self.seed)

    def _phase(self, lessons: list[Lesson], course: Course) -> Lessons:
        return Lessons(
            lessons,
            course.counts,
            self._steps(course.steps),
            course.rate,
            self.recipe.imitation,
            self.recipe.naming,
        )

    def _start_clip(self, lessons: list[Lesson], scale: Scale) -> None:
        tile, half, legend, item, needle, shell = (lessons[i] for i in (2, 3, 4, 5, 6, 7))
        tower = self.model.model.vision_tower
        torch.manual_seed(self.seed)
        start_clip(tower, torch.cat([self._pixels(lesson.images[:90]) for lesson in lessons[2:]]))
        torch.manual_seed(self.seed)
        *layers, last = [self._steps(steps) for steps in self.recipe.layer_steps]
        shown = (
            ([tile, legend], 20),
            ([half, needle, tile, legend], 12),
            ([item, half, needle, legend, shell], 10),
        )
        for number, (steps, (some, count)) in enumerate(zip(layers, shown, strict=True)):
            hits = learn_layer(tower, number, self._pixels, some, count=count, steps=steps)
            print(f"layer {number} {hits}", flush=True)
        whole = [legend, item, needle, shell]
        hits = learn_projector(self.model, self._pixels, whole, scale, count=16, steps=last)
        print(f"projector {hits}", flush=True)

    def _pixels(self, images: torch.Tensor) -> torch.Tensor:
        return self.family.vision_inputs(images)["pixel_values"]

    def _parts(self, teacher: Any, onto: Sequence[torch.Tensor]) -> list[Lesson]:
        """Tiles and half frames: with the teacher's embeddings, or in mosaics that it isn't shown."""
        pools = draw_pools(PARTS, seed=self.seed, share=self.share)
        if self.family.frame_px is None:
            return [adapted(taught(teacher, pool), self.family, onto) for pool in pools.values()]
        mosaics = [mosaic(pool, PER_SIDE[name.split()[-1]]) for name, pool in pools.items()]
        return [
            Lesson(one.images, torch.zeros(len(one.images), 0, 0), one.labels) for one in mosaics
        ]


@dataclass(frozen=True)
class Seen:
    """Frames as the language stage takes them."""

    frames: list[Any]
    embeddings: torch.Tensor
