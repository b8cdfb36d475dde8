"""SlideVQA: questions on decks of up to 20 slides (Tanaka et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from kamera.lab.benchmarks.contract import SHORT, Benchmark, BenchmarkItem, Scored
from kamera.lab.benchmarks.rows import Row, matching, parquet_rows
from kamera.lab.benchmarks.scoring import DIGITS, plain_words, word_f1

NUM_PAGES = 20
SAME = (
    ("this is ", ""),
    ("it is ", ""),
    ("&", ","),
    ("and", ","),
    ("percent", ""),
    ("organisation", "organization"),
    ("because of", ""),
    ("because", ""),
    ("due to", ""),
    ("hours", "hrs"),
    ("minites", "min"),
)
"""What the benchmark's own evaluation takes for the same; the spelling of the last one is its own."""


@dataclass(frozen=True)
class SlideVQA(Benchmark):
    """`data/{split}-*.parquet`, the slides inside as `page_1` to `page_20`."""

    name: ClassVar[str] = "slidevqa"
    metric: ClassVar[str] = (
        "F1 of the answer's words; `em` is the share of items with the same words"
    )

    folder: Path
    split: Literal["train", "val", "test"] = "test"
    pages: tuple[int, ...] = tuple(range(1, NUM_PAGES + 1))
    """The slides to show, from 1."""

    def items(self) -> Iterator[BenchmarkItem]:
        """Row by row."""
        for row in parquet_rows(matching(self.folder, f"data/{self.split}-*.parquet")):
            yield self._item(row)

    def score(self, item: BenchmarkItem, response: str) -> float:
        """F1."""
        return word_f1(_words(response, item.question), _words(item.answers[0], item.question))

    def summary(self, scored: Sequence[Scored]) -> dict[str, float]:
        """`score` and `em`."""
        same = [
            _words(one.response, one.item.question)
            == _words(one.item.answers[0], one.item.question)
            for one in scored
        ]
        return {**super().summary(scored), "em": sum(same) / len(same)}

    def _item(self, row: Row) -> BenchmarkItem:
        names = [f"page_{page}" for page in self.pages]
        slides = [row.image(name) for name in names if row.data.get(name) is not None]
        if not slides:
            raise row.wrong(names[0], "a slide, nor is any other page", row.data.get(names[0]))
        question = row.text("question")
        name = "qa_id" if "qa_id" in row.data else "deck_name"
        return BenchmarkItem(
            id=row.text(name),
            category=str(row.data.get("reasoning_type") or "all"),
            parts=tuple(slides),
            question=question,
            choices=(),
            answers=(row.text("answer"),),
            instruction=SHORT,
        )


def _words(text: str, question: str) -> list[str]:
    """The words that count: without fillers, the unit that the question names, punctuation, articles."""
    text, question = text.lower(), question.lower()
    for old, new in SAME:
        text = text.replace(old, new)
    for asks in ("how many", "which"):
        unit = question.partition(asks)[2].split()
        if unit:
            text = text.replace(unit[0], "")
    words = [DIGITS.get(word, word) for word in plain_words(text)]
    return words[:1] if words and words[0].startswith(("yes", "no")) else words
