"""MMLongBench-Doc: questions on whole PDF documents (Ma et al., 2024)."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kamera.lab.benchmarks.contract import Benchmark, BenchmarkItem, Scored
from kamera.lab.benchmarks.media import pdf_pages
from kamera.lab.benchmarks.rows import Row, json_file, matching, parquet_rows
from kamera.lab.benchmarks.scoring import anls

NOT_ANSWERABLE = "Not answerable"
INSTRUCTION = (
    "Answer with a single word, phrase, number or list. "
    f"If the document doesn't tell, answer '{NOT_ANSWERABLE}'."
)
FORMATS = ("Str", "Int", "Float", "List", "None")
EXACT = re.compile(
    r".*https://.*|.*(\.py|ipynb)|page.*|\d+([- ]\d+)?|.*[ap]\.m\..*|\d{4}[- ]\d{2}([- ]\d{2})?"
    r"|[\w.%+-]+@[\w.-]+\.[a-z]{2,}"
)
"""Answers that aren't partly right: links, code files, pages, numbers, times, dates, e-mail addresses."""


@dataclass(frozen=True)
class DocItem(BenchmarkItem):
    """A question on a document. `answer_format` decides how a response is compared."""

    answer_format: str


@dataclass(frozen=True)
class MMLongBenchDoc(Benchmark):
    """`samples.json` or `data/train-*.parquet`, and `documents/{doc_id}`."""

    name: ClassVar[str] = "mmlongbench-doc"
    metric: ClassVar[str] = (
        "by the answer's format: numbers within 1 %, words by ANLS, lists element by element; "
        "`f1` is the benchmark's own, over what is answerable"
    )

    folder: Path
    max_pages: int | None = None
    """The first pages of each document; None for all of them."""

    def items(self) -> Iterator[BenchmarkItem]:
        """Row by row."""
        for row in self._rows():
            yield self._item(row)

    def score(self, item: BenchmarkItem, response: str) -> float:
        """By the answer's format."""
        assert isinstance(item, DocItem)
        answer = item.answers[0]
        if item.answer_format == "Int":
            return float(_whole(answer) is not None and _whole(answer) == _whole(response))
        if item.answer_format == "Float":
            return float(_close(_number(answer), _number(response)))
        if item.answer_format == "List":
            return _score_lists(_listed(answer), _listed(response))
        return _score_words(_clean(answer), _clean(response))

    def summary(self, scored: Sequence[Scored]) -> dict[str, float]:
        """`score`, and `f1` of recall over answerable questions and precision over answers given."""
        found = sum(one.score for one in scored if _answerable(one.item.answers[0]))
        asked = sum(_answerable(one.item.answers[0]) for one in scored)
        told = sum(_answerable(one.response) for one in scored)
        f1 = 2 * found / (asked + told) if asked + told else 0.0
        return {**super().summary(scored), "f1": f1}

    def _rows(self) -> Iterator[Row]:
        path = self.folder / "samples.json"
        if not path.exists():
            yield from parquet_rows(matching(self.folder, "data/train-*.parquet"))
            return
        yield from Row({"samples": json_file(path)}, str(path)).rows("samples")

    def _item(self, row: Row) -> DocItem:
        answer_format = row.text("answer_format")
        if answer_format not in FORMATS:
            raise row.wrong("answer_format", f"one of {FORMATS}", answer_format)
        document = row.file(self.folder / "documents", row.text("doc_id"))
        question, answer = row.text("question"), row.text("answer")
        return DocItem(
            id=f"{row.text('doc_id')}: {question}",
            category=_category(row, answer),
            parts=pdf_pages(document)[: self.max_pages],
            question=question,
            choices=(),
            answers=(answer,),
            instruction=INSTRUCTION,
            answer_format=answer_format,
        )


def _category(row: Row, answer: str) -> str:
    pages = _literal(row.text("evidence_pages"))
    if not isinstance(pages, list):
        raise row.wrong("evidence_pages", "a list of pages", row.get("evidence_pages"))
    if not _answerable(answer):
        return "unanswerable"
    return "single-page" if len(pages) == 1 else "cross-page"


def _answerable(answer: str) -> bool:
    return answer.strip().rstrip(".").lower() != NOT_ANSWERABLE.lower()


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _clean(text: object) -> str:
    """Lower case, without what stands in parentheses, outer quotes, a dollar or a per cent sign."""
    bare = re.sub(r"\s*\([^)]*\)", "", str(text).lower().strip()).strip()
    return re.sub(r"^['\"]|['\"]$", "", bare).strip().lstrip("$").strip().rstrip("%").strip()


def _number(text: str) -> float | None:
    try:
        value = float(_clean(text))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _whole(text: str) -> int | None:
    value = _number(text)
    return None if value is None else int(value)


def _close(answer: float | None, response: float | None) -> bool:
    """Within 1 %; a per cent and its fraction are the same."""
    if answer is None or response is None:
        return False
    return any(math.isclose(answer * factor, response, rel_tol=0.01) for factor in (0.01, 1, 100))


def _listed(text: str) -> list[str]:
    value = _literal(text) if text.strip().startswith("[") else text
    return sorted(map(_clean, value if isinstance(value, list) else [text]))


def _score_words(answer: str, response: str) -> float:
    return float(answer == response) if EXACT.fullmatch(answer) else anls(response, answer)


def _score_lists(answer: list[str], response: list[str]) -> float:
    if len(answer) != len(response):
        return 0.0
    if answer and (_number(answer[0]) is not None or EXACT.fullmatch(answer[0])):
        return float(answer == response)
    return min(
        (anls(found, wanted) for wanted, found in zip(answer, response, strict=True)), default=1.0
    )
