"""`Subject`: one model under measurement, and what several reproductions take from it, measured once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kamera.arms import Arm, Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.evaluation import Progress, Tally, compare_arms
from kamera.lab.probes.case import Case, cases_of
from kamera.lab.tasks import TASKS, Item

NUM_LEARNED = 8
"""Train items that the arms which learn see."""
MakeArms = Callable[[Workbench], Sequence[Arm]]
"""A module's function: asked again with the same one, a subject doesn't measure again."""


@dataclass
class Subject:
    """One model.

    Attributes:
        folder: its checkpoint; the folder's name is the model's.
        engine: with it loaded.
        num_items: test items of a task under all arms.
        seed: which are drawn.
        text_model: checkpoint folder of a language model for the text control; None where none was given.
        progress: is told what runs.
    """

    folder: Path
    engine: HFEngine
    num_items: int
    seed: int = 0
    text_model: Path | None = None
    progress: Progress | None = None
    _tallies: dict[str, dict[str, Tally]] = field(default_factory=dict)
    _found: dict[object, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The model's."""
        return self.folder.name

    @property
    def num_cases(self) -> int:
        """Items of a probe: a quarter of `num_items`, as each takes many forwards; at least two."""
        return max(2, self.num_items // 4)

    def items(self, task: str, num_items: int | None = None) -> list[Item]:
        """Of the test split."""
        return TASKS[task].items(num_items or self.num_items, split="test", seed=self.seed)

    def cases(self, task: str = "binding", num_cases: int | None = None) -> Iterator[Case]:
        """One case for each item, B being its target frame."""
        return cases_of(Workbench(self.engine), self.items(task, num_cases or self.num_cases))

    def tallies(self, task: str) -> dict[str, Tally]:
        """A task under all arms that are compared; asked again, the same without a forward."""
        if task not in self._tallies:
            self._tallies[task] = compare_arms(
                self.engine,
                TASKS[task],
                self.num_items,
                num_learned=NUM_LEARNED,
                seed=self.seed,
                progress=self._tell,
            )
        return self._tallies[task]

    def some_tallies(
        self, task: str, make: MakeArms, num_items: int | None = None
    ) -> dict[str, Tally]:
        """A task under these arms alone, `re-prefill` first and `blind` among them; measured once."""
        count = num_items or self.num_items

        def measure() -> dict[str, Tally]:
            return compare_arms(
                self.engine,
                TASKS[task],
                count,
                make=make,
                num_learned=NUM_LEARNED,
                seed=self.seed,
                progress=lambda name, done, total: self.tell(f"{name}, some arms", done, total),
            )

        found: dict[str, Tally] = self.once((task, make, count), measure)
        return found

    def once(self, key: object, measure: Callable[[], Any]) -> Any:
        """What `measure` gives, from memory when `key` was measured before."""
        if key not in self._found:
            self._found[key] = measure()
        return self._found[key]

    def _tell(self, task: str, done: int, total: int) -> None:
        self.tell(f"{task}, all arms", done, total)

    def tell(self, what: str, done: int, total: int) -> None:
        """Say what runs."""
        if self.progress is not None:
            self.progress(f"{what}, {self.name}", done, total)
