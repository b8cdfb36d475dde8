"""MuirBench: parquet rows with several images each."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import BLUE, GREEN, RED, color_of, picture, png, write_parquet

from kamera.errors import ConfigError
from kamera.lab.benchmarks import MuirBench, Picture

ROW = {
    "idx": "counting_3",
    "task": "Counting",
    "image_relation": "Independent",
    "image_type": "Photography",
    "image_list": [png(picture(RED)), png(picture(GREEN))],
    "question": "How many dots in <image> and <image>?",
    "options": ["1", "2", "None of the choices provided"],
    "answer": "B",
}


def loaded(folder: Path, *rows: dict[str, Any]) -> MuirBench:
    write_parquet(folder / "data" / "test-00000-of-00001.parquet", rows)
    return MuirBench(folder)


def test_images_stand_where_the_question_has_them(tmp_path: Path) -> None:
    benchmark = loaded(tmp_path, ROW)
    (item,) = benchmark.items()
    first, one, between, two = item.parts
    assert (first, between) == ("How many dots in ", " and ")
    assert isinstance(one, Picture)
    assert isinstance(two, Picture)
    assert [color_of(one.open()), color_of(two.open())] == ["red", "green"]
    assert item.question == "?\nA. 1\nB. 2\nC. None of the choices provided"
    assert (item.id, item.category, item.answers) == ("counting_3", "Counting", ("B",))
    for response in ("B", "b", "B.", "(B) 2", "2", "Answer: B", "**B**"):
        assert benchmark.score(item, response) == 1.0, response
    for response in ("A", "C", "D", "", "Both", "none of the choices provided"):
        assert benchmark.score(item, response) == 0.0, response


def test_images_in_options_stand_there(tmp_path: Path) -> None:
    row = {**ROW, "question": "Which is red?", "options": ["<image>", "<image>"], "answer": "A"}
    (item,) = loaded(tmp_path, row).items()
    assert [part for part in item.parts if isinstance(part, str)] == ["Which is red?\nA. ", "\nB. "]


def test_without_markers_for_all_the_images_come_first(tmp_path: Path) -> None:
    row = {**ROW, "question": "What is in <image>?"}
    (item,) = loaded(tmp_path, row).items()
    assert len(item.parts) == 2
    assert item.question.startswith("What is in ?\nA. 1")


def test_files_are_read_in_order(tmp_path: Path) -> None:
    for number in range(11):
        row = {**ROW, "idx": str(number), "image_list": [png(picture(BLUE))] * 2}
        write_parquet(tmp_path / "data" / f"test-{number:05}-of-00011.parquet", [row])
    assert [item.id for item in MuirBench(tmp_path).items()] == [str(n) for n in range(11)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"answer": "D"}, r"row 1: 'answer' isn't one of \('A', 'B', 'C'\), got 'D'"),
        ({"image_list": None}, r"'image_list' isn't a list of images"),
        ({"image_list": [{"bytes": None, "path": "x.png"}]}, r"isn't an image with its bytes"),
    ],
)
def test_a_row_that_can_not_be_right_is_named(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        list(loaded(tmp_path, {**ROW, **changed}).items())


def test_a_broken_image_is_named_when_it_is_opened(tmp_path: Path) -> None:
    row = {**ROW, "image_list": [{"bytes": b"x", "path": None}] * 2}
    (item,) = loaded(tmp_path, row).items()
    image = item.parts[1]
    assert isinstance(image, Picture)
    with pytest.raises(ConfigError, match="row 1, image_list 0: can't read the image"):
        image.open()


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    loaded(tmp_path, ROW)
    (tmp_path / "data" / "test-00000-of-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match=r"Can't read the parquet file .*test-00000"):
        list(MuirBench(tmp_path).items())


def test_an_empty_folder_says_what_was_expected(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow (extra lab) isn't installed")
    with pytest.raises(ConfigError, match=r"expected data/test-\*\.parquet"):
        list(MuirBench(tmp_path).items())


def test_without_pyarrow_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    benchmark = loaded(tmp_path, ROW)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'kamera-kv\[lab\]'"):
        list(benchmark.items())
