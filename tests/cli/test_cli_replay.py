"""`kamera replay`: the table, and every bad input as one clear line."""

import json
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image
from test_cli import fails, invoke

from kamera.engines.hf import HFEngine
from kamera.lab.replay import plot as plot_module


@pytest.fixture
def frames(tmp_path: Path, picture: Callable[..., Image.Image]) -> Path:
    """Three frames."""
    folder = tmp_path / "frames"
    folder.mkdir()
    for number in (8, 9, 10):
        picture(number).save(folder / f"screenshot{number}.png")
    return folder


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model is a failure of the test: the input should have been refused before."""

    def loaded(*args: object, **kwargs: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(HFEngine, "from_pretrained", loaded)


def test_replay_prints_a_whole_table_and_writes_its_files(
    frames: Path, tiny: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = invoke("replay", frames, "--model", tiny, "--out", out, "--window", 2, "--rank", 4)
    assert result.exit_code == 0, result.output
    assert "…" not in result.stdout
    for arm in ("re-prefill", "prefix cache", "blind", "kamera"):
        assert f" {arm} " in result.stdout
    assert str(out / "report.json") in result.stdout.replace("\n", "")
    report = json.loads((out / "report.json").read_text())
    assert report["settings"]["window"] == 2
    assert report["source"]["frames"] == [f"screenshot{i}.png" for i in (8, 9, 10)]
    assert f"{report['totals']['kamera']['num_formed']:,}" in result.stdout
    assert (out / "replay.png").stat().st_size > 10_000


def test_every_option_reaches_the_settings(frames: Path, tiny: Path, tmp_path: Path) -> None:
    chosen = {
        "--model": tiny,
        "--out": tmp_path / "out",
        "--store": tmp_path / "store",
        "--window": 2,
        "--question": "Which one?",
        "--look-back-every": 0,
        "--rank": 3,
        "--max-frames": 2,
    }
    flat = [part for pair in chosen.items() for part in pair]
    result = invoke("replay", frames, *flat, "--no-reorder", "--skip-bad")
    assert result.exit_code == 0, result.output
    settings = json.loads((tmp_path / "out" / "report.json").read_text())["settings"]
    for option, value in chosen.items():
        given = str(value) if isinstance(value, Path) else value
        assert settings.pop(option.removeprefix("--").replace("-", "_")) == given
    assert settings == {"source": str(frames), "reorder": False, "skip_bad": True}
    assert (tmp_path / "store").is_dir()


@pytest.mark.usefixtures("no_model")
class TestRefusedBeforeAModelIsLoaded:
    def test_a_folder_that_does_not_exist(self, tmp_path: Path) -> None:
        assert "Nothing at" in fails(invoke("replay", tmp_path / "none"))

    def test_a_folder_without_an_image(self, tmp_path: Path) -> None:
        (tmp_path / "readme.txt").write_text("no image")
        assert "No image in" in fails(invoke("replay", tmp_path))

    def test_a_file_that_is_neither(self, tmp_path: Path) -> None:
        (tmp_path / "readme.txt").write_text("no video")
        assert "Can't replay the file" in fails(invoke("replay", tmp_path / "readme.txt"))

    def test_a_corrupt_image(self, frames: Path, tmp_path: Path) -> None:
        last = frames / "screenshot10.png"
        last.write_bytes(last.read_bytes()[:300])
        line = fails(invoke("replay", frames, "--out", tmp_path / "out"))
        assert "screenshot10.png" in line
        assert "--skip-bad" in line

    def test_a_folder_for_results_that_is_a_file(self, frames: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("taken")
        for out in (tmp_path / "file", tmp_path / "file" / "inner"):
            assert "Can't write into" in fails(invoke("replay", frames, "--out", out))

    @pytest.mark.parametrize(
        "options", [("--window", 0), ("--rank", 0), ("--look-back-every", -1), ("--question", "")]
    )
    def test_a_setting_that_can_not_be_right(self, frames: Path, options: tuple[object]) -> None:
        assert "Invalid" in fails(invoke("replay", frames, *options))

    def test_no_matplotlib(self, frames: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            plot_module, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name)
        )
        assert "pip install 'kamera-kv[lab]'" in fails(invoke("replay", frames))


def refusal(frames: Path, model: Path, out: Path, *options: object) -> str:
    return fails(invoke("replay", frames, "--model", model, "--out", out, *options))


def test_a_folder_that_is_no_checkpoint(frames: Path, tmp_path: Path) -> None:
    assert "No checkpoint in" in refusal(frames, tmp_path, tmp_path / "out")


def test_a_model_type_that_is_not_served_says_which_are(frames: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    line = refusal(frames, tmp_path, tmp_path / "out")
    assert "'mamba'" in line
    assert "qwen2_5_vl" in line


def test_a_checkpoint_without_weights(frames: Path, tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    assert "Can't load the checkpoint" in refusal(frames, folder, tmp_path / "out")


def test_a_store_that_is_a_file(frames: Path, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("taken")
    line = refusal(frames, tiny, tmp_path / "out", "--store", tmp_path / "file")
    assert "Store directory" in line


def test_a_question_that_holds_an_image_token(frames: Path, tiny: Path, tmp_path: Path) -> None:
    question = "What is <|vision_start|><|image_pad|><|vision_end|>?"
    line = refusal(frames, tiny, tmp_path / "out", "--question", question)
    assert "<|image_pad|>" in line
