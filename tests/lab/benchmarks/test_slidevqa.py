"""SlideVQA: decks in parquet rows, and the rules of its F1."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import BLUE, GREEN, RED, color_of, picture, png, write_parquet

from kamera.errors import ConfigError
from kamera.lab.benchmarks import Picture, Scored, SlideVQA

ROW: dict[str, Any] = {
    "deck_name": "deck_1",
    "question": "How many people voted?",
    "answer": "2 people",
    **{f"page_{page}": None for page in range(4, 21)},
    "page_1": png(picture(RED)),
    "page_2": png(picture(GREEN)),
    "page_3": png(picture(BLUE)),
}


def loaded(folder: Path, *rows: dict[str, Any], **chosen: Any) -> SlideVQA:
    write_parquet(folder / "data" / "test-00000-of-00001.parquet", rows)
    return SlideVQA(folder, **chosen)


def score(folder: Path, question: str, answer: str, response: str) -> float:
    benchmark = loaded(folder, {**ROW, "question": question, "answer": answer})
    (item,) = benchmark.items()
    return benchmark.score(item, response)


def test_slides_are_shown_in_order(tmp_path: Path) -> None:
    (item,) = loaded(tmp_path, ROW).items()
    slides = [part for part in item.parts if isinstance(part, Picture)]
    assert [color_of(slide.open()) for slide in slides] == ["red", "green", "blue"]
    assert (item.id, item.category, item.answers) == ("deck_1", "all", ("2 people",))


def test_two_pages_can_be_chosen(tmp_path: Path) -> None:
    row = {**ROW, "qa_id": 12, "reasoning_type": "Multi-Hop"}
    (item,) = loaded(tmp_path, row, pages=(1, 3)).items()
    slides = [part for part in item.parts if isinstance(part, Picture)]
    assert [color_of(slide.open()) for slide in slides] == ["red", "blue"]
    assert (item.id, item.category) == ("12", "Multi-Hop")


@pytest.mark.parametrize(
    ("question", "answer", "response", "expected"),
    [
        ("How many people voted?", "2 people", "two", 1.0),
        ("Who?", "the red and blue team", "Red, Blue team!", 1.0),
        ("Who?", "red team", "red team won", 0.8),
        ("Is it?", "Yes", "yes, it is so", 1.0),
        ("Is it?", "No", "yes", 0.0),
        ("Who?", "Ann", "", 0.0),
    ],
)
def test_f1_forgives_what_the_benchmark_forgives(
    tmp_path: Path, question: str, answer: str, response: str, expected: float
) -> None:
    assert score(tmp_path, question, answer, response) == pytest.approx(expected)


def test_em_is_the_share_with_the_same_words(tmp_path: Path) -> None:
    benchmark = loaded(tmp_path, {**ROW, "answer": "red team", "question": "Who?"})
    (item,) = benchmark.items()
    scored = [Scored(item, told, benchmark.score(item, told)) for told in ("Red team", "red")]
    assert benchmark.summary(scored) == {"score": pytest.approx((1 + 2 / 3) / 2), "em": 0.5}


def test_a_deck_without_slides_is_named(tmp_path: Path) -> None:
    empty = {**ROW, "page_1": None, "page_2": None, "page_3": None}
    with pytest.raises(ConfigError, match="row 2: 'page_1' isn't a slide"):
        list(loaded(tmp_path, ROW, empty).items())


def test_a_missing_split_says_what_was_expected(tmp_path: Path) -> None:
    loaded(tmp_path, ROW)
    with pytest.raises(ConfigError, match=r"expected data/val-\*\.parquet"):
        list(SlideVQA(tmp_path, split="val").items())
