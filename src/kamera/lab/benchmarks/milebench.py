"""MileBench, the temporal suite: what happens over a sequence of frames (Song et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kamera.lab.benchmarks.contract import LETTER, Benchmark, BenchmarkItem, letters, with_choices
from kamera.lab.benchmarks.interleaved import numbered
from kamera.lab.benchmarks.rows import Row, json_file
from kamera.lab.benchmarks.scoring import choice_score, plain_words

TEMPORAL = ("ActionSequence", "ActionPrediction", "ObjectShuffle", "StateChange")
"""The data sets of the suite that the paper uses."""


@dataclass(frozen=True)
class MileBench(Benchmark):
    """`{name}/{name}.json` and `{name}/images/` for each data set."""

    name: ClassVar[str] = "milebench"
    metric: ClassVar[str] = "accuracy of the choice"

    folder: Path
    datasets: tuple[str, ...] = TEMPORAL

    def items(self) -> Iterator[BenchmarkItem]:
        """Data set by data set."""
        for name in self.datasets:
            path = self.folder / name / f"{name}.json"
            whole = json_file(path)
            top = Row(whole if isinstance(whole, dict) else {}, str(path))
            instructions = top.row("meta_data").get("task_instruction")
            for row in top.rows("data"):
                yield _item(row, name, _instruction(row, instructions), path.parent / "images")

    def score(self, item: BenchmarkItem, response: str) -> float:
        """The right choice, by its letter or its words."""
        return choice_score(item, response)


def _instruction(row: Row, instructions: object) -> str:
    """What the row's task asks; the file holds a list of them, or an object."""
    which = row.text("task_instruction_id")
    named = dict(enumerate(instructions)) if isinstance(instructions, list) else instructions
    by_text = {str(key): value for key, value in named.items()} if isinstance(named, dict) else {}
    if not isinstance(by_text.get(which), str):
        raise row.wrong("task_instruction_id", f"one of {sorted(by_text)}", which)
    return str(by_text[which])


def _item(row: Row, name: str, instruction: str, images: Path) -> BenchmarkItem:
    task = row.row("task_instance")
    choices, response = task.texts("choice_list"), row.text("response")
    same = [plain_words(choice) == plain_words(response) for choice in choices]
    if not any(same):
        raise row.wrong("response", f"one of the choices {choices}", response)
    pictures = [task.image_file(images, path) for path in task.texts("images_path")]
    text = f"{instruction}\n{with_choices(task.text('context'), choices)}"
    parts, question = numbered(text, pictures, row.place)
    return BenchmarkItem(
        id=f"{name} {row.text('sample_id')}",
        category=name,
        parts=parts,
        question=question,
        choices=choices,
        answers=(letters(len(choices))[same.index(True)],),
        instruction=LETTER,
    )
