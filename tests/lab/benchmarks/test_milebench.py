"""MileBench: numbered frames in a context, choices in words."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import GREEN, RED, color_of, save_picture, write_json

from kamera.errors import ConfigError
from kamera.lab.benchmarks import ImageFile, MileBench

SAMPLE = {
    "sample_id": 4,
    "task_instruction_id": 1,
    "task_instance": {
        "context": "Frames: {image#1}, {image#2}. What comes next?",
        "images_path": ["one.png", "two.png"],
        "choice_list": ["Opens the door.", "Closes the door."],
    },
    "response": "Closes the door.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_picture(tmp_path / "ActionSequence" / "images" / "one.png", RED)
    save_picture(tmp_path / "ActionSequence" / "images" / "two.png", GREEN)
    return tmp_path


def loaded(folder: Path, *samples: Any, instructions: Any = ("Unused.", "Watch.")) -> MileBench:
    whole = {
        "meta_data": {"task_instruction": instructions, "question_type": "multi-choice"},
        "data": samples,
    }
    write_json(folder / "ActionSequence" / "ActionSequence.json", whole)
    return MileBench(folder, datasets=("ActionSequence",))


@pytest.mark.parametrize("instructions", [["Unused.", "Watch."], {"1": "Watch."}])
def test_frames_stand_where_the_context_has_them(folder: Path, instructions: Any) -> None:
    benchmark = loaded(folder, SAMPLE, instructions=instructions)
    (item,) = benchmark.items()
    before, one, between, two = item.parts
    assert (before, between) == ("Watch.\nFrames: ", ", ")
    assert isinstance(one, ImageFile)
    assert isinstance(two, ImageFile)
    assert [color_of(one.open()), color_of(two.open())] == ["red", "green"]
    assert item.question == ". What comes next?\nA. Opens the door.\nB. Closes the door."
    assert (item.id, item.category) == ("ActionSequence 4", "ActionSequence")
    for response in ("B", "closes the door", "B. Closes the door."):
        assert benchmark.score(item, response) == 1.0
    assert benchmark.score(item, "Opens the door.") == 0.0


def test_a_frame_may_be_named_twice_and_in_any_order(folder: Path) -> None:
    task = {**SAMPLE["task_instance"], "context": "{image#2}{table#1}{image#2}"}  # type: ignore[dict-item]
    (item,) = loaded(folder, {**SAMPLE, "task_instance": task}).items()
    shown = [color_of(part.open()) for part in item.parts if isinstance(part, ImageFile)]
    assert shown == ["green", "red", "green"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"context": "{image#1} {image#3}"}, r"data 0: the text names the images \[1, 3\]"),
        ({"context": "{image#1}"}, r"expected each of 1 to 2"),
        ({"images_path": ["one.png", "gone.png"]}, r"task_instance: no file .*gone\.png"),
        ({"choice_list": ["Opens the door."]}, r"'response' isn't one of the choices"),
    ],
)
def test_a_sample_that_can_not_be_right_is_named(
    folder: Path, changed: dict[str, Any], message: str
) -> None:
    task = {**SAMPLE["task_instance"], **changed}  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=message):
        list(loaded(folder, {**SAMPLE, "task_instance": task}).items())


def test_an_unknown_instruction_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match="'task_instruction_id' isn't one of"):
        list(loaded(folder, {**SAMPLE, "task_instruction_id": 9}).items())


@pytest.mark.parametrize("text", ["{", "[]", '{"data": []}'])
def test_a_file_of_another_shape_is_named(folder: Path, text: str) -> None:
    path = folder / "ActionSequence" / "ActionSequence.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"ActionSequence\.json: (expected JSON|no field)"):
        list(MileBench(folder).items())
