"""The tasks: labels that are in the pixels, train and test apart, the same items every time."""

import numpy as np
import pytest

from kamera.lab.tasks import ANSWERS, TASKS
from kamera.lab.tasks.frames import ball, swap
from kamera.lab.tasks.shell_game import states
from kamera.lab.tasks.sources import COLORS, digit_images, shape_images


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_shapes_label_is_what_its_pixels_show(split) -> None:
    """A shape fills its bounding box wholly (rectangle), by π/4 (circle) or by half (triangle)."""
    pictures = shape_images(split)
    assert len(pictures) > 500
    for picture in pictures:
        rows, columns = np.where((np.asarray(picture.load()) == COLORS[picture.color]).all(-1))
        if np.ptp(rows) < 8:  # of a few pixels, where a triangle's steps fill as much as a disc
            continue
        fill = len(rows) / ((np.ptp(rows) + 1) * (np.ptp(columns) + 1))
        shown = "rectangle" if fill > 0.93 else "circle" if fill > 0.65 else "triangle"
        assert shown == picture.shape, picture.path.name


def test_train_and_test_share_no_handwriting() -> None:
    for digit in range(10):
        train = {image.tobytes() for image in digit_images("train")[digit]}
        test = {image.tobytes() for image in digit_images("test")[digit]}
        assert not train & test
        assert min(len(train), len(test)) > 30


@pytest.mark.parametrize("name", TASKS)
def test_the_same_seed_gives_the_same_items(name) -> None:
    first, again, other = (TASKS[name].items(3, seed=seed) for seed in (1, 1, 2))
    for item, same in zip(first, again, strict=True):
        assert (item.question, item.answer) == (same.question, same.answer)
        assert item.answer in item.choices
        assert item.answer in ANSWERS
        for frame, twin in zip(item.frames, same.frames, strict=True):
            assert frame.image.tobytes() == twin.image.tobytes()
    assert [i.frames[0].image.tobytes() for i in first] != [
        i.frames[0].image.tobytes() for i in other
    ]


def test_the_ball_follows_its_cup_and_is_nowhere_before_it_is_shown() -> None:
    rng = np.random.default_rng(0)
    frames = [swap(0, rng), ball(0, rng), swap(0, rng), swap(2, rng), swap(0, rng)]
    assert states(frames) == ["none", "left", "middle", "right", "right"]
