"""`kamera lab benchmark` on a deck that the test writes, by command; the loaders' options as words."""

import json
from pathlib import Path

import pytest
from benchmark_files import BLUE, RED, picture, png, write_parquet
from typer.testing import CliRunner

from kamera.cli.app import app
from kamera.errors import ConfigError
from kamera.lab.benchmarks import BENCHMARKS, MuSiQue, SlideVQA
from kamera.lab.benchmarks.opened import open_benchmark
from kamera.lab.runs.catalog import RUNS
from kamera.lab.runs.html import page_of


def write_deck(folder: Path) -> None:
    row = {
        "deck_name": "deck",
        "question": "which color",
        "answer": "red",
        "page_1": png(picture(RED)),
        "page_2": png(picture(BLUE)),
    }
    write_parquet(folder / "data" / "val-0.parquet", [row, {**row, "answer": "<b>"}])


def test_the_command_adds_the_benchmark_to_the_report(tmp_path: Path) -> None:
    write_deck(tmp_path)
    words = [
        "lab",
        "benchmark",
        "slidevqa",
        str(tmp_path),
        "--model",
        "nano-gqa",
        "--items",
        "2",
        "--bare",
    ]
    words += ["--set", "split=val", "--set", "pages=1,2", "--max-new-tokens", "2"]
    done = CliRunner().invoke(app, [*words, "--out", f"{tmp_path}/lab"], env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "lab.json").read_text(encoding="utf-8"))
    section = report["benchmark slidevqa"]
    model = section["models"]["nano-gqa"]
    assert (section["n"], model["n"], model["num_left_out"]) == (2, 2, 0)
    assert section["command"] == (
        "kamera lab benchmark slidevqa FOLDER --model nano-gqa --items 2 --seed 0 --set split=val "
        "--set pages=1,2 --bare"
    )
    assert str(tmp_path) not in json.dumps(section)
    assert list(model["arms"]) == ["re-prefill", "prefix cache", "blind", "patch 4", "patch 16"]
    assert all(arm in done.stdout for arm in model["arms"])
    page = page_of(report, RUNS)
    assert "benchmark slidevqa" in page
    assert "<td class=figure>patch 16</td>" in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing", "."], "Invalid benchmark 'nothing'"),
        (["slidevqa", "nowhere"], "No benchmark at nowhere"),
        (["slidevqa", ".", "--set", "pages"], "expected NAME=VALUE"),
        (["slidevqa", ".", "--set", "slides=1"], "expected split, pages, got slides"),
        (["slidevqa", ".", "--set", "pages=a"], "Invalid pages"),
        (["slidevqa", ".", "--set", "split=all"], "Invalid split: expected train, val, test"),
        (["slidevqa", "."], "data/test-"),
    ],
)
def test_what_cannot_be_run_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(
        app, ["lab", "benchmark", *words, "--model", "nano-gqa", "--out", "lab"]
    )
    assert done.exit_code == 2
    assert says in done.stderr
    assert not Path("lab.json").exists()


def test_every_loader_takes_its_options_as_words(tmp_path: Path) -> None:
    for name, kind in BENCHMARKS.items():
        assert isinstance(open_benchmark(name, tmp_path, {}), kind)
    deck = open_benchmark("slidevqa", tmp_path, {"pages": "3,7", "split": "val"})
    assert deck == SlideVQA(tmp_path, "val", (3, 7))
    hops = open_benchmark("musique", tmp_path, {"supporting_only": "true"})
    assert hops == MuSiQue(tmp_path, supporting_only=True)
    pages = open_benchmark("mmlongbench-doc", tmp_path, {"max_pages": "3"})
    assert vars(pages)["max_pages"] == 3
    with pytest.raises(ConfigError, match="supporting_only: expected bool"):
        open_benchmark("musique", tmp_path, {"supporting_only": "perhaps"})
