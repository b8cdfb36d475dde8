"""MuSiQue: questions that take two to four paragraphs of text (Trivedi et al., 2022). The text control."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from kamera.lab.benchmarks.contract import SHORT, Benchmark, BenchmarkItem, Scored
from kamera.lab.benchmarks.rows import Row, json_lines
from kamera.lab.benchmarks.scoring import plain_words, word_f1


@dataclass(frozen=True)
class MuSiQue(Benchmark):
    """`musique_ans_v1.0_{split}.jsonl`."""

    name: ClassVar[str] = "musique"
    metric: ClassVar[str] = (
        "F1 of the answer's words, the best of the aliases; `em` for the same words"
    )

    folder: Path
    split: Literal["train", "dev"] = "dev"
    supporting_only: bool = False
    """Show the paragraphs that the answer takes, and no other: two chunks for a two-hop question."""

    def items(self) -> Iterator[BenchmarkItem]:
        """Line by line."""
        for row in json_lines(self.folder / f"musique_ans_v1.0_{self.split}.jsonl"):
            yield self._item(row)

    def score(self, item: BenchmarkItem, response: str) -> float:
        """F1."""
        found = plain_words(response)
        return max(word_f1(found, plain_words(answer)) for answer in item.answers)

    def summary(self, scored: Sequence[Scored]) -> dict[str, float]:
        """`score` and `em`."""
        same = [plain_words(one.response) in map(plain_words, one.item.answers) for one in scored]
        return {**super().summary(scored), "em": sum(same) / len(same)}

    def _item(self, row: Row) -> BenchmarkItem:
        shown = [
            f"{paragraph.text('title')}\n{paragraph.text('paragraph_text')}\n\n"
            for paragraph in row.rows("paragraphs")
            if paragraph.get("is_supporting") or not self.supporting_only
        ]
        if not shown:
            raise row.wrong("paragraphs", "a list with a paragraph to show", row.get("paragraphs"))
        aliases = row.texts("answer_aliases") if "answer_aliases" in row.data else ()
        return BenchmarkItem(
            id=row.text("id"),
            category=row.text("id").partition("__")[0],
            parts=tuple(shown),
            question=row.text("question"),
            choices=(),
            answers=(row.text("answer"), *aliases),
            instruction=SHORT,
        )
