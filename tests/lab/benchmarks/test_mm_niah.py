"""MM-NIAH: documents of text and images, and its three kinds of answers."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import BLUE, GREEN, RED, color_of, save_picture, write_lines

from kamera.errors import ConfigError
from kamera.lab.benchmarks import ImageFile, MMNiah

META = {
    "placed_depth": 0.4,
    "context_length": 9000,
    "num_images": 1,
    "needles": ["The secret is a green apple."],
    "choices": None,
    "choices_image_path": None,
}
ROW = {
    "id": 7,
    "images_list": ["obelisc/a.png"],
    "context": "Before.\n<image>\nAfter. The secret is a green apple.",
    "question": "What is the secret?",
    "answer": "green apple",
    "meta": META,
}
COUNTING = {
    **ROW,
    "question": "List the counts.",
    "answer": [2, 0, 3],
    "meta": {**META, "context_length": 500, "placed_depth": [0.1, 0.5]},
}
IMAGE_CHOICE = {
    **ROW,
    "images_list": ["obelisc/a.png"],
    "context": "One <image> here.",
    "question": "Which of these is in the document?",
    "answer": 1,
    "meta": {**META, "choices_image_path": ["b.png", "c.png"]},
}
TEXT_CHOICE = {**ROW, "answer": 0, "meta": {**META, "choices": ["left", "right"]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = tmp_path / "mm_niah_val" / "images"
    for name, color in (("obelisc/a.png", RED), ("b.png", GREEN), ("c.png", BLUE)):
        save_picture(images / name, color)
    return tmp_path


def loaded(folder: Path, *rows: Any, task: str = "retrieval-text") -> MMNiah:
    write_lines(folder / "mm_niah_val" / "annotations" / f"{task}.jsonl", rows)
    return MMNiah(folder, tasks=(task,))


def test_images_stand_where_the_document_has_them(folder: Path) -> None:
    benchmark = loaded(folder, ROW)
    (item,) = benchmark.items()
    before, image, *rest = item.parts
    assert before == "Before.\n"
    assert isinstance(image, ImageFile)
    assert color_of(image.open()) == "red"
    assert rest == []
    assert item.question == "\nAfter. The secret is a green apple.\nWhat is the secret?"
    assert (item.id, item.category, item.answers) == ("7", "retrieval-text 8k", ("green apple",))
    assert item.instruction.startswith("Answer the question using")


def test_words_of_the_answer_must_stand_in_the_response(folder: Path) -> None:
    benchmark = loaded(folder, ROW, {**ROW, "answer": "three"})
    words, number = benchmark.items()
    assert benchmark.score(words, "It is a Green Apple!") == 1.0
    assert benchmark.score(words, "green apples") == 0.0
    assert benchmark.score(number, "There are 3.") == 1.0
    assert benchmark.score(number, "33") == 0.0


def test_counts_are_scored_place_by_place(folder: Path) -> None:
    benchmark = loaded(folder, COUNTING, {**COUNTING, "answer": "[2, 0, 3]"}, task="counting-text")
    for item in benchmark.items():
        assert item.category == "counting-text under 1k"
        assert benchmark.score(item, "[2, 0, 3]") == 1.0
        assert benchmark.score(item, "```json\n[2, 1, 3]```") == pytest.approx(2 / 3)
        assert benchmark.score(item, "[2]") == pytest.approx(1 / 3)
        assert benchmark.score(item, "two, none, three") == 0.0
        assert benchmark.score(item, "2") == 0.0


def test_image_choices_come_behind_the_question(folder: Path) -> None:
    benchmark = loaded(folder, IMAGE_CHOICE, task="reasoning-image")
    (item,) = benchmark.items()
    pictures = [part for part in item.parts if isinstance(part, ImageFile)]
    assert [color_of(one.open()) for one in pictures] == ["red", "green", "blue"]
    assert item.parts[2] == " here.\nWhich of these is in the document?\nA. "
    assert item.parts[4] == "\nB. "
    assert (item.answers, item.letters, item.question) == (("B",), ("A", "B"), "")
    assert benchmark.score(item, "B") == 1.0
    assert benchmark.score(item, "(A)") == 0.0


def test_text_choices_are_written_with_letters(folder: Path) -> None:
    benchmark = loaded(folder, TEXT_CHOICE)
    (item,) = benchmark.items()
    assert item.question.endswith("What is the secret?\nA. left\nB. right")
    assert benchmark.score(item, "The answer is A.") == 1.0
    assert benchmark.score(item, "right") == 0.0


def test_rows_are_read_as_they_are_asked_for(folder: Path) -> None:
    items = loaded(folder, ROW, "not an object").items()
    assert next(items).id == "7"
    with pytest.raises(ConfigError, match=r"retrieval-text\.jsonl, line 2: expected a JSON object"):
        next(items)


def test_a_file_may_be_a_link_as_in_a_hub_cache(folder: Path) -> None:
    image = folder / "mm_niah_val" / "images" / "b.png"
    image.rename(folder / "blob")
    image.symlink_to(folder / "blob")
    (item,) = loaded(folder, {**ROW, "images_list": ["b.png"]}).items()
    assert item.parts[1] == ImageFile(image)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"context": "No image."}, r"line 1: 0 times <image> for 1 images"),
        ({"images_list": ["gone.png"]}, r"line 1: no file .*gone\.png"),
        ({"images_list": ["../../../other.png"]}, r"leads out of"),
        ({"images_list": ["/etc/hostname"]}, r"leads out of"),
        ({"images_list": "a.png"}, r"'images_list' isn't a list of texts, got 'a\.png'"),
        ({"meta": {}}, r"line 1, meta: no field 'context_length'"),
        ({"meta": {**META, "context_length": "long"}}, r"isn't a number of tokens"),
        (
            {"meta": {**META, "choices": ["x"]}, "answer": 1},
            r"isn't a choice's index below 1, got 1",
        ),
        ({"answer": None}, r"'answer' isn't a text, got None"),
    ],
)
def test_a_row_that_can_not_be_right_is_named(
    folder: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        list(loaded(folder, {**ROW, **changed}).items())


def test_counts_that_are_no_list_are_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match="'answer' isn't a list of counts, got 'many'"):
        list(loaded(folder, {**COUNTING, "answer": "many"}, task="counting-image").items())


def test_a_missing_task_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"Can't open .*retrieval-text\.jsonl"):
        list(MMNiah(folder).items())
