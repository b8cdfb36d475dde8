"""Replay's pure parts: settings, order of frames, windows; and videos."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from kamera.errors import ConfigError
from kamera.lab.replay.frames import evenly, load_frames, natural_key
from kamera.lab.replay.settings import ReplaySettings
from kamera.lab.replay.steps import steps_of


def settings(**chosen: object) -> ReplaySettings:
    return ReplaySettings(Path("frames"), **chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [("window", 0), ("look_back_every", -1), ("rank", 0), ("max_frames", 0), ("question", " \n")],
)
def test_a_setting_that_can_not_be_right_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"Invalid {name}: expected"):
        settings(**{name: value})


def test_names_sort_by_their_numbers() -> None:
    names = ["screenshot10.png", "screenshot9.png", "Screenshot1.png", "a2b10.png", "a2b9.png"]
    assert sorted(names, key=natural_key) == [
        "a2b9.png",
        "a2b10.png",
        "Screenshot1.png",
        "screenshot9.png",
        "screenshot10.png",
    ]


@given(st.lists(st.text(max_size=6)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert len(sorted(names, key=natural_key)) == len(names)


@given(st.integers(1, 500), st.integers(1, 60))
def test_evenly_spaced_indices_are_distinct_and_span_the_whole(total: int, count: int) -> None:
    indices = evenly(total, count)
    assert len(set(indices)) == len(indices) == min(total, count)
    assert indices == sorted(indices)
    assert indices[0] == 0
    assert indices[-1] == (total - 1 if count > 1 else 0)


def test_the_oldest_leaves_and_the_longest_gone_comes_back() -> None:
    steps = steps_of(4, settings(window=2, look_back_every=2))
    assert [(step.name, step.window) for step in steps] == [
        ("admit 0", (0,)),
        ("admit 1", (0, 1)),
        ("admit 2", (1, 2)),
        ("admit 3", (2, 3)),
        ("look back 0", (3, 0)),
        ("reorder", (0, 3)),
    ]


@given(st.integers(1, 20), st.integers(1, 8), st.integers(0, 5), st.booleans())
def test_every_window_is_bounded_and_every_frame_is_admitted_once(
    num_frames: int, window: int, every: int, reorder: bool
) -> None:
    chosen = settings(window=window, look_back_every=every, reorder=reorder)
    steps = steps_of(num_frames, chosen)
    assert all(1 <= len(step.window) <= window for step in steps)
    assert all(len(set(step.window)) == len(step.window) for step in steps)
    admitted = [step.window[-1] for step in steps if step.label == "admit"]
    assert admitted == list(range(num_frames))
    assert all(step.label != "look back" for step in steps) or (every and num_frames > window)


def save(path: Path) -> None:
    Image.new("RGB", (56, 56), (200, 0, 0)).save(path)


def test_a_folder_gives_its_images_in_order_and_nothing_else(tmp_path: Path) -> None:
    for name in ("s10.png", "s9.JPG", "s1.jpeg", "._s1.png"):
        save(tmp_path / name) if name[0] == "s" else (tmp_path / name).write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("no image")
    found = load_frames(tmp_path)
    assert [frame.name for frame in found.frames] == ["s1.jpeg", "s9.JPG", "s10.png"]
    assert found.notes == ()
    first = load_frames(tmp_path, max_frames=2)
    assert [frame.name for frame in first.frames] == ["s1.jpeg", "s9.JPG"]
    assert first.notes == ("The first 2 of the folder's 3 images.",)


def test_a_folder_of_folders_names_them(tmp_path: Path) -> None:
    (tmp_path / "task-1").mkdir()
    with pytest.raises(ConfigError, match=r"No image in .*did you mean one of its folders: task-1"):
        load_frames(tmp_path)


def test_only_unreadable_images_are_no_images(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"not a picture")
    with pytest.raises(ConfigError, match=r"No readable image in .*: 1 skipped"):
        load_frames(tmp_path, skip_bad=True)


def test_a_video_without_its_reader_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    video = tmp_path / "clip.mp4"
    video.write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"pip install 'kamera-kv\[lab\]'"):
        load_frames(video)


def test_a_video_gives_evenly_spaced_frames(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="PyAV (extra lab) isn't installed")
    iio = pytest.importorskip("imageio.v3", reason="imageio (extra lab) isn't installed")
    import numpy as np

    shades = np.arange(0, 250, 25, dtype=np.uint8)
    clip = np.broadcast_to(shades[:, None, None, None], (10, 64, 64, 3))
    iio.imwrite(tmp_path / "clip.mp4", clip, plugin="pyav", codec="libx264", fps=10)
    found = load_frames(tmp_path / "clip.mp4", max_frames=4)
    assert [frame.name for frame in found.frames] == ["frame 0", "frame 3", "frame 6", "frame 9"]
    assert found.notes == ("4 evenly spaced frames of the video's 10.",)
    for frame, shade in zip(found.frames, (0, 75, 150, 225), strict=True):
        assert isinstance(frame.image, Image.Image)
        assert abs(frame.image.getpixel((32, 32))[0] - shade) < 12  # type: ignore[index]


def test_a_file_that_is_no_video_is_named(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="PyAV (extra lab) isn't installed")
    video = tmp_path / "clip.mp4"
    video.write_bytes(b"not a video")
    with pytest.raises(ConfigError, match=r"Can't read the video .*clip\.mp4"):
        load_frames(video)
