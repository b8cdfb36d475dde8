"""MuSiQue: paragraphs as text chunks."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import write_lines

from kamera.errors import ConfigError
from kamera.lab.benchmarks import MuSiQue, Scored

ROW: dict[str, Any] = {
    "id": "2hop__482757_12019",
    "paragraphs": [
        {"idx": 0, "title": "A", "paragraph_text": "Ann made it.", "is_supporting": True},
        {"idx": 1, "title": "B", "paragraph_text": "Noise.", "is_supporting": False},
        {"idx": 2, "title": "C", "paragraph_text": "Ann is from Oslo.", "is_supporting": True},
    ],
    "question": "Where is the maker from?",
    "question_decomposition": [],
    "answer": "Oslo",
    "answer_aliases": ["the Oslo", "Kristiania city"],
    "answerable": True,
}


def loaded(folder: Path, *rows: Any, **chosen: Any) -> MuSiQue:
    write_lines(folder / "musique_ans_v1.0_dev.jsonl", rows)
    return MuSiQue(folder, **chosen)


def test_each_paragraph_is_a_part(tmp_path: Path) -> None:
    (item,) = loaded(tmp_path, ROW).items()
    assert item.parts == ("A\nAnn made it.\n\n", "B\nNoise.\n\n", "C\nAnn is from Oslo.\n\n")
    assert (item.category, item.question) == ("2hop", "Where is the maker from?")
    (item,) = loaded(tmp_path, ROW, supporting_only=True).items()
    assert item.parts == ("A\nAnn made it.\n\n", "C\nAnn is from Oslo.\n\n")


def test_the_best_alias_counts(tmp_path: Path) -> None:
    benchmark = loaded(tmp_path, ROW)
    (item,) = benchmark.items()
    assert benchmark.score(item, "oslo.") == 1.0
    assert benchmark.score(item, "Kristiania") == pytest.approx(2 / 3)
    assert benchmark.score(item, "Bergen") == 0.0
    scored = [Scored(item, told, benchmark.score(item, told)) for told in ("Oslo", "Kristiania")]
    assert benchmark.summary(scored) == {"score": pytest.approx(5 / 6), "em": 0.5}


def test_a_line_that_is_not_json_is_named_with_its_number(tmp_path: Path) -> None:
    benchmark = loaded(tmp_path, ROW)
    path = tmp_path / "musique_ans_v1.0_dev.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + "\n{broken\n", encoding="utf-8")
    items = benchmark.items()
    next(items)
    with pytest.raises(ConfigError, match=r"musique_ans_v1\.0_dev\.jsonl, line 3: expected a JSON"):
        next(items)


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "musique_ans_v1.0_dev.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="expected UTF-8 text"):
        list(MuSiQue(tmp_path).items())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"paragraphs": "text"}, r"line 1: 'paragraphs' isn't a list of objects"),
        ({"paragraphs": [{"title": "A"}]}, r"line 1, paragraphs 0: no field 'is_supporting'"),
        ({"paragraphs": []}, r"'paragraphs' isn't a list with a paragraph to show"),
        ({"answer": ["Oslo"]}, r"'answer' isn't a text"),
    ],
)
def test_a_row_that_can_not_be_right_is_named(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        list(loaded(tmp_path, {**ROW, **changed}, supporting_only=True).items())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Can't open .*musique_ans_v1\.0_train\.jsonl"):
        list(MuSiQue(tmp_path, split="train").items())
