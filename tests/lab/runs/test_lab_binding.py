"""The binding task's figures with few arms, and all arms once by command, on the packaged nano-gqa."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import kamera
from kamera.arms import ROWS, Arm, Blind, Epic, Patched, Reprefill, SameBytes, Workbench
from kamera.cli.app import app
from kamera.engines.hf import HFEngine
from kamera.lab.evaluation import compare_arms
from kamera.lab.metrics_paired import eta_difference, eta_interval, mean_interval
from kamera.lab.runs.binding import BINDING, RANKS, figures_of
from kamera.lab.tasks import TASKS

NUM_ITEMS = 4


def few(bench: Workbench) -> list[Arm]:
    patched = [Patched(bench, rank) for rank in RANKS]
    return [Reprefill(bench.engine), Blind(bench), *patched, Epic(bench, SameBytes(4))]


@pytest.fixture(scope="module")
def model() -> dict[str, Any]:
    engine = HFEngine.from_pretrained(kamera.packaged_model())
    tallies = compare_arms(engine, TASKS["binding"], NUM_ITEMS, make=few)
    kinds = {name: "token" if "epic" in name else "feature" for name in tallies}
    return json.loads(json.dumps(figures_of(tallies, kinds)))


def test_intervals_can_be_made_again_from_the_items(model: dict[str, Any]) -> None:
    items, arms = model["items"], model["arms"]
    blind = items["blind"]["kl"]
    for name, series in items.items():
        assert {len(values) for values in series.values()} == {NUM_ITEMS}
        eta = eta_interval(series["kl"], blind)
        assert eta is not None
        assert arms[name]["intervals"]["eta"] == eta.json()
        right = mean_interval([float(value) for value in series["correct"]])
        assert arms[name]["intervals"]["accuracy"] == right.json()
    assert model["figures"]["patch 16: eta"] == arms["patch 16"]["intervals"]["eta"]


def test_the_patch_is_set_against_tokens_that_keep_no_more_bytes(model: dict[str, Any]) -> None:
    paired = {pair["rank"]: pair for pair in model["paired"]}
    assert list(paired) == list(RANKS)
    assert paired[1]["other"] is None  # the only token arm was given the bytes of rank 4
    assert paired[4]["other"] == paired[16]["other"] == "epic = rank 4"
    items = model["items"]
    difference = eta_difference(
        items["patch 4"]["kl"], items["epic = rank 4"]["kl"], items["blind"]["kl"]
    )
    assert difference is not None
    assert paired[4]["eta"] == difference.json() == model["figures"]["patch 4 - best tokens"]
    assert difference.interval.value > 0
    assert model["figures"]["patch 1 - best tokens"] is None


def test_an_arm_that_was_not_run_is_not_measured(model: dict[str, Any]) -> None:
    verdicts = {claim.key: claim.verdict(model["figures"]) for claim in BINDING.claims}
    assert verdicts["patch 16: eta"] == "holds"
    assert verdicts["patch 1 - best tokens"] == "not measured"
    assert verdicts["sink 32: flips"] == "not measured"


@pytest.mark.slow
def test_the_command_writes_every_arm_and_shows_it(tmp_path: Path) -> None:
    args = ["lab", "binding", "--model", "nano-gqa", "--items", "1", "--out", f"{tmp_path}/lab"]
    done = CliRunner().invoke(app, args, env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output
    section = json.loads((tmp_path / "lab.json").read_text(encoding="utf-8"))["binding"]
    assert section["command"] == "kamera lab binding --model nano-gqa --items 1 --seed 0"
    assert (section["n"], section["seed"]) == (1, 0)
    assert set(section["commit"]) == {"id", "changed"}
    model = section["models"]["nano-gqa"]
    assert model["dtype"] == "float32"
    assert {row["kind"] for row in model["arms"].values()} == {row.kind for row in ROWS}
    assert all(name in done.stdout for name in model["arms"])
    verdicts = [claim.verdict(model["figures"]) for claim in BINDING.claims]
    assert "not measured" not in verdicts
    for verdict in ("holds", "does not hold"):
        assert done.stdout.count(verdict) >= verdicts.count(verdict)
