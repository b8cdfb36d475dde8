"""Video-MME and EgoSchema: choices about videos, frames taken when they are asked for."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import BLUE, GREEN, RED, color_of, write_film, write_parquet

from kamera.errors import ConfigError
from kamera.lab.benchmarks import EgoSchema, Film, VideoMME

MME: dict[str, Any] = {
    "video_id": "001",
    "videoID": "fFjv93ACGo8",
    "duration": "short",
    "domain": "Knowledge",
    "sub_category": "Humanity & History",
    "task_type": "Counting Problem",
    "question_id": "001-1",
    "question": "Which color comes last?",
    "options": ["A. Red.", "B. Green.", "C. Blue.", "D. None."],
    "answer": "C",
}
EGO: dict[str, Any] = {
    "question_idx": "12",
    "question": "What was done?",
    "video_idx": "0074f737",
    "option": ["A. C reads.", "B. C cooks.", "C. C sleeps.", "D. C runs.", "E. C waits."],
    "answer": "3",
}
COLORS = [RED] * 4 + [GREEN] * 4 + [BLUE] * 4


def mme(folder: Path, *rows: dict[str, Any], **chosen: Any) -> VideoMME:
    write_parquet(folder / "videomme" / "test-00000-of-00001.parquet", rows)
    return VideoMME(folder, **chosen)


def ego(folder: Path, *rows: dict[str, Any], **chosen: Any) -> EgoSchema:
    write_parquet(folder / "Subset" / "test-00000-of-00001.parquet", rows)
    return EgoSchema(folder, **chosen)


def test_a_film_gives_evenly_spaced_frames(tmp_path: Path) -> None:
    write_film(tmp_path / "data" / "fFjv93ACGo8.mp4", COLORS, fps=4)
    benchmark = mme(tmp_path, MME, num_frames=3)
    (item,) = benchmark.items()
    (film,) = item.parts
    assert isinstance(film, Film)
    assert [color_of(frame) for frame in film.frames()] == ["red", "green", "blue"]
    assert film.fps(3) == pytest.approx(1.0, rel=0.05)  # 12 frames, 4 a second: 3 s
    assert item.question == "Which color comes last?\nA. Red.\nB. Green.\nC. Blue.\nD. None."
    assert (item.id, item.category, item.answers) == ("001-1", "short", ("C",))
    assert benchmark.score(item, "C") == benchmark.score(item, "Blue") == 1.0
    assert benchmark.score(item, "A") == 0.0


def test_the_answer_of_egoschema_is_an_index(tmp_path: Path) -> None:
    write_film(tmp_path / "videos" / "0074f737.MP4", COLORS)
    benchmark = ego(tmp_path, EGO)
    (item,) = benchmark.items()
    assert item.question.endswith("D. C runs.\nE. C waits.")
    assert (item.id, item.answers) == ("12", ("D",))
    assert benchmark.score(item, "D. C runs.") == 1.0
    assert benchmark.score(item, "E") == 0.0


def test_a_missing_video_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"row 1: no file .*fFjv93ACGo8\.mp4"):
        list(mme(tmp_path, MME).items())
    with pytest.raises(ConfigError, match=r"row 1: no file .*0074f737\.mp4"):
        list(ego(tmp_path, EGO).items())


def test_a_broken_video_is_named_when_it_is_opened(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="PyAV (extra lab) isn't installed")
    path = tmp_path / "data" / "fFjv93ACGo8.mp4"
    path.parent.mkdir()
    path.write_bytes(b"not a film")
    (item,) = mme(tmp_path, MME).items()
    (film,) = item.parts
    assert isinstance(film, Film)
    with pytest.raises(ConfigError, match=r"Can't read the video .*fFjv93ACGo8\.mp4"):
        film.frames()


def test_an_answer_that_can_not_be_right_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'answer' isn't one of .* got 'E'"):
        list(mme(tmp_path, {**MME, "answer": "E"}).items())
    with pytest.raises(ConfigError, match=r"isn't a choice's index below 5, got '5'"):
        list(ego(tmp_path, {**EGO, "answer": "5"}).items())
    with pytest.raises(ConfigError, match=r"no answer: expected the rows of `Subset`"):
        list(ego(tmp_path, {**EGO, "answer": None}).items())
