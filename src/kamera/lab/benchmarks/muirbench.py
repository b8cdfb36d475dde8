"""MuirBench: twelve tasks over several images (Wang et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kamera.lab.benchmarks.contract import LETTER, Benchmark, BenchmarkItem, letters, with_choices
from kamera.lab.benchmarks.interleaved import IMAGE, interleaved
from kamera.lab.benchmarks.rows import Row, matching, parquet_rows
from kamera.lab.benchmarks.scoring import choice_score


@dataclass(frozen=True)
class MuirBench(Benchmark):
    """`data/test-*.parquet`, the images inside."""

    name: ClassVar[str] = "muirbench"
    metric: ClassVar[str] = "accuracy of the letter"

    folder: Path

    def items(self) -> Iterator[BenchmarkItem]:
        """Row by row."""
        for row in parquet_rows(matching(self.folder, "data/test-*.parquet")):
            yield _item(row)

    def score(self, item: BenchmarkItem, response: str) -> float:
        """The right letter."""
        return choice_score(item, response)


def _item(row: Row) -> BenchmarkItem:
    choices, pictures = row.texts("options"), row.images("image_list")
    if row.text("answer") not in letters(len(choices)):
        raise row.wrong("answer", f"one of {letters(len(choices))}", row.get("answer"))
    text = with_choices(row.text("question"), choices)
    if text.count(IMAGE) != len(pictures):  # as lmms-eval shows every row: all images first
        text = IMAGE * len(pictures) + text.replace(IMAGE, "")
    parts, question = interleaved(text, pictures, row.place)
    return BenchmarkItem(
        id=row.text("idx"),
        category=row.text("task"),
        parts=parts,
        question=question,
        choices=choices,
        answers=(row.text("answer"),),
        instruction=LETTER,
    )
