"""`kamera lab binding` on the packaged nano-gqa: few arms for its figures, all of them once by command."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import kamera
from kamera.arms import ROWS, Arm, Blind, Epic, Patched, Reprefill, SameBytes, Workbench
from kamera.cli.app import app
from kamera.errors import ConfigError
from kamera.lab.metrics_paired import eta_difference, eta_interval, mean_interval
from kamera.lab.runs import RANKS, run_binding

NUM_ITEMS = 4


def few(bench: Workbench) -> dict[str, list[Arm]]:
    return {
        "reference": [Reprefill(bench.engine), Blind(bench)],
        "feature": [Patched(bench, rank) for rank in RANKS],
        "token": [Epic(bench, SameBytes(4))],
    }


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    seen: list[tuple[str, int, int]] = []
    found = run_binding(
        [kamera.packaged_model()],
        NUM_ITEMS,
        command="this",
        make=few,
        progress=lambda *at: seen.append(at),
    )
    assert seen == [("binding, nano-gqa", n + 1, NUM_ITEMS) for n in range(NUM_ITEMS)]
    return found


def test_the_section_says_what_was_run(section: dict[str, Any]) -> None:
    assert (section["command"], section["n"], section["seed"]) == ("this", NUM_ITEMS, 0)
    assert set(section["commit"]) == {"id", "changed"}
    model = section["models"]["nano-gqa"]
    assert model["dtype"] == "float32"
    kinds = {name: row["kind"] for name, row in model["arms"].items()}
    assert kinds["blind"] == "reference"
    assert kinds["patch 4"] == "feature"
    assert kinds["epic = rank 4"] == "token"


def test_intervals_can_be_made_again_from_the_items(section: dict[str, Any]) -> None:
    model = json.loads(json.dumps(section))["models"]["nano-gqa"]
    items, arms = model["items"], model["arms"]
    blind = items["blind"]["kl"]
    for name, series in items.items():
        assert {len(values) for values in series.values()} == {NUM_ITEMS}
        eta = eta_interval(series["kl"], blind)
        assert eta is not None
        assert arms[name]["intervals"]["eta"] == eta.json()
        right = mean_interval([float(value) for value in series["correct"]])
        assert arms[name]["intervals"]["accuracy"] == right.json()


def test_the_patch_is_set_against_tokens_that_keep_no_more_bytes(section: dict[str, Any]) -> None:
    model = section["models"]["nano-gqa"]
    paired = {pair["rank"]: pair for pair in model["paired"]}
    assert list(paired) == list(RANKS)
    assert paired[1]["other"] is None  # the only token arm was given the bytes of rank 4
    assert paired[4]["other"] == paired[16]["other"] == "epic = rank 4"
    items = model["items"]
    difference = eta_difference(
        items["patch 4"]["kl"], items["epic = rank 4"]["kl"], items["blind"]["kl"]
    )
    assert difference is not None
    assert paired[4]["eta"] == difference.json()
    assert difference.interval.value > 0


def test_what_cannot_be_run_is_refused() -> None:
    model = kamera.packaged_model()
    with pytest.raises(ConfigError, match="number of items"):
        run_binding([model], 0, command="")
    with pytest.raises(ConfigError, match="different names"):
        run_binding([model, model], 1, command="")


@pytest.mark.slow
def test_the_command_writes_every_arm_and_shows_it(tmp_path: Path) -> None:
    args = ["lab", "binding", "--model", "nano-gqa", "--items", "1", "--out", f"{tmp_path}/lab"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    section = json.loads((tmp_path / "lab.json").read_text(encoding="utf-8"))["binding"]
    assert section["command"] == "kamera lab binding --model nano-gqa --items 1 --seed 0"
    arms = section["models"]["nano-gqa"]["arms"]
    assert {row["kind"] for row in arms.values()} == {row.kind for row in ROWS}
    assert all(name in done.stdout for name in arms)
    assert "oracle top = rank 1" in done.stdout


def test_a_report_that_cannot_be_added_to_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text("mine")
    done = CliRunner().invoke(app, ["lab", "binding", "--out", f"{tmp_path}/lab.json"])
    assert done.exit_code == 2
    assert "expected a report of the lab" in done.stderr
    assert (tmp_path / "lab.json").read_text() == "mine"
