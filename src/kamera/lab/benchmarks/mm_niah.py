"""MM-NIAH: needles in long documents of text and images (Wang et al., 2024)."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from kamera.lab.benchmarks.contract import (
    LETTER,
    SHORT,
    Benchmark,
    BenchmarkItem,
    letters,
    with_choices,
)
from kamera.lab.benchmarks.interleaved import IMAGE, interleaved
from kamera.lab.benchmarks.rows import Row, json_lines
from kamera.lab.benchmarks.scoring import DIGITS, choice_score, plain_words

TASKS = tuple(
    f"{kind}-{modality}"
    for kind in ("retrieval", "counting", "reasoning")
    for modality in ("text", "image")
)
BINS = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64)
"""Lower ends of the context lengths that are reported apart, in thousands of tokens."""


@dataclass(frozen=True)
class MMNiah(Benchmark):
    """`mm_niah_{split}/annotations/{task}.jsonl` and `mm_niah_{split}/images/`."""

    name: ClassVar[str] = "mm-niah"
    metric: ClassVar[str] = (
        "retrieval and reasoning: the answer's words stand in the response, or the right letter; "
        "counting: share of the list's places that are right"
    )

    folder: Path
    split: Literal["val", "test"] = "val"
    tasks: tuple[str, ...] = TASKS

    def items(self) -> Iterator[BenchmarkItem]:
        """Task by task."""
        root = self.folder / f"mm_niah_{self.split}"
        for task in self.tasks:
            for row in json_lines(root / "annotations" / f"{task}.jsonl"):
                yield _item(row, task, root / "images")

    def score(self, item: BenchmarkItem, response: str) -> float:
        """By the kind of the answer: a letter, a list of counts, or words."""
        if item.choices:
            return choice_score(item, response)
        if item.category.startswith("counting"):
            return _counted(json.loads(item.answers[0]), response)
        wanted, found = _words(item.answers[0]), _words(response)
        return float(re.search(rf"\b{re.escape(wanted)}\b", found) is not None)


def _item(row: Row, task: str, images: Path) -> BenchmarkItem:
    meta = row.row("meta")
    texts = meta.texts("choices") if meta.data.get("choices") else ()
    shown = meta.texts("choices_image_path") if meta.data.get("choices_image_path") else ()
    choices = texts or shown
    asked = with_choices(row.text("question"), texts or [IMAGE] * len(shown))
    names = (*row.texts("images_list"), *shown)
    pictures = [row.image_file(images, name) for name in names]
    parts, question = interleaved(f"{row.text('context')}\n{asked}", pictures, row.place)
    return BenchmarkItem(
        id=row.text("id"),
        category=f"{task} {_length(meta)}",
        parts=parts,
        question=question,
        choices=choices,
        answers=(_answer(row, task, len(choices)),),
        instruction=LETTER if choices else SHORT,
    )


def _answer(row: Row, task: str, num_choices: int) -> str:
    """The letter, the list as JSON, or the words."""
    value = row.get("answer")
    if num_choices:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < num_choices:
            raise row.wrong("answer", f"a choice's index below {num_choices}", value)
        return letters(num_choices)[value]
    if not task.startswith("counting"):
        return row.text("answer")
    counts = _list(value)
    if not counts:
        raise row.wrong("answer", "a list of counts", value)
    return json.dumps(counts)


def _length(meta: Row) -> str:
    value = meta.get("context_length")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise meta.wrong("context_length", "a number of tokens", value)
    at = bisect_right(BINS, value / 1000)
    return f"{BINS[at - 1]}k" if at else "under 1k"


def _list(value: object) -> list[object]:
    """A list, or a text that is one in JSON; empty for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            return []
    return value if isinstance(value, list) else []


def _counted(wanted: list[object], response: str) -> float:
    found = _list(response.replace("```", "").removeprefix("json").strip())
    return sum(one == other for one, other in zip(found, wanted, strict=False)) / len(wanted)


def _words(text: str) -> str:
    return " ".join(DIGITS.get(word, word) for word in plain_words(text))
