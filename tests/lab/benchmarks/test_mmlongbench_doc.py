"""MMLongBench-Doc: pages of PDFs, answers by format, F1 over what is answerable."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import BLUE, GREEN, RED, color_of, picture, write_json, write_parquet

from kamera.errors import ConfigError
from kamera.lab.benchmarks import MMLongBenchDoc, PdfPage, Scored
from kamera.lab.benchmarks.mmlongbench_doc import FORMATS

pytest.importorskip("pypdfium2", reason="pypdfium2 (extra lab) isn't installed")

ROW = {
    "doc_id": "report.pdf",
    "doc_type": "Research report",
    "question": "How many?",
    "answer": "5",
    "evidence_pages": "[3]",
    "evidence_sources": "['Chart']",
    "answer_format": "Int",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "documents"
    documents.mkdir()
    first, *others = (picture(color) for color in (RED, GREEN, BLUE))
    first.save(documents / "report.pdf", save_all=True, append_images=others)
    return tmp_path


def loaded(folder: Path, *rows: Any, max_pages: int | None = None) -> MMLongBenchDoc:
    write_json(folder / "samples.json", rows)
    return MMLongBenchDoc(folder, max_pages)


def score(folder: Path, answer: str, answer_format: str, response: str) -> float:
    benchmark = loaded(folder, {**ROW, "answer": answer, "answer_format": answer_format})
    (item,) = benchmark.items()
    return benchmark.score(item, response)


def test_pages_are_rendered_in_order(folder: Path) -> None:
    (item,) = loaded(folder, ROW).items()
    pages = [part for part in item.parts if isinstance(part, PdfPage)]
    assert [color_of(page.open()) for page in pages] == ["red", "green", "blue"]
    assert len(item.parts) == 3
    assert pages[0].open().size == (112, 112)  # Pillow writes 72 dpi, 144 are rendered
    (item,) = loaded(folder, ROW, max_pages=2).items()
    assert len(item.parts) == 2


def test_parquet_is_read_as_well(folder: Path) -> None:
    write_parquet(folder / "data" / "train-00000-of-00001.parquet", [ROW])
    (item,) = MMLongBenchDoc(folder).items()
    assert item.question == "How many?"


def test_what_is_reported_apart(folder: Path) -> None:
    unanswerable = {**ROW, "answer": "Not answerable", "evidence_pages": "[]"}
    rows = [ROW, {**ROW, "evidence_pages": "[3, 5]"}, unanswerable]
    found = [item.category for item in loaded(folder, *rows).items()]
    assert found == ["single-page", "cross-page", "unanswerable"]


@pytest.mark.parametrize(
    ("answer", "answer_format", "response", "expected"),
    [
        ("5", "Int", "5.0", 1.0),
        ("5", "Int", "6", 0.0),
        ("5", "Int", "five", 0.0),
        ("0.25", "Float", "25%", 1.0),
        ("$10.00", "Float", "10.05", 1.0),
        ("10", "Float", "10.2", 0.0),
        ("10", "Float", "inf", 0.0),
        ("Blue car", "Str", "blue car (left)", 1.0),
        ("Blue car", "Str", "blue cat", 1 - 1 / 8),
        ("Blue car", "Str", "red", 0.0),
        ("page 3", "Str", "page 4", 0.0),
        ("me@here.org", "Str", "me@there.org", 0.0),
        ("2020-05", "Str", "2020-06", 0.0),
        ("['Blue', 'red']", "List", "['red', 'blue']", 1.0),
        ("['Blue', 'red']", "List", "['red']", 0.0),
        ("['1', '2']", "List", "[2, 1]", 1.0),
        ("['1', '2']", "List", "[2, 3]", 0.0),
        ("['one']", "List", "one", 1.0),
        ("Not answerable", "None", "not answerable", 1.0),
    ],
)
def test_each_format_has_its_rule(
    folder: Path, answer: str, answer_format: str, response: str, expected: float
) -> None:
    assert score(folder, answer, answer_format, response) == pytest.approx(expected)


@pytest.mark.parametrize("answer_format", FORMATS)
@pytest.mark.parametrize("response", ["", "[", "__import__('os')", "[" * 500, "nan"])
def test_no_response_is_executed_or_fails(folder: Path, answer_format: str, response: str) -> None:
    assert score(folder, "7", answer_format, response) == 0.0


def test_f1_is_over_what_is_answerable(folder: Path) -> None:
    none = {**ROW, "answer": "Not answerable", "answer_format": "None", "evidence_pages": "[]"}
    benchmark = loaded(folder, ROW, ROW, none)
    told = ["5", "Not answerable", "Not answerable"]
    scored = [
        Scored(item, response, benchmark.score(item, response))
        for item, response in zip(benchmark.items(), told, strict=True)
    ]
    figures = benchmark.summary(scored)
    assert figures["score"] == pytest.approx(2 / 3)
    recall, precision = 1 / 2, 1 / 1
    assert figures["f1"] == pytest.approx(2 * recall * precision / (recall + precision))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"doc_id": "gone.pdf"}, r"samples 0: no file .*gone\.pdf"),
        ({"answer_format": "Date"}, r"'answer_format' isn't one of"),
        ({"evidence_pages": "three"}, r"'evidence_pages' isn't a list of pages"),
    ],
)
def test_a_row_that_can_not_be_right_is_named(
    folder: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        list(loaded(folder, {**ROW, **changed}).items())


def test_a_broken_document_is_named(folder: Path) -> None:
    (folder / "documents" / "report.pdf").write_bytes(b"%PDF-")
    with pytest.raises(ConfigError, match=r"Can't read the PDF .*report\.pdf"):
        list(loaded(folder, ROW).items())


def test_a_folder_without_questions_says_what_was_expected(folder: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow (extra lab) isn't installed")
    with pytest.raises(ConfigError, match=r"expected data/train-\*\.parquet"):
        list(MMLongBenchDoc(folder).items())
