"""docs/lab/binding.md is what docs/lab/lab.json says, and the JSON what its own series say."""

import copy
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kamera
from kamera.lab.metrics_paired import eta_difference, eta_interval
from kamera.lab.runs import RANKS

ROOT = Path(__file__).parents[2]
FAILS, HOLDS, PAIRED = "## What does not hold on ours", "## What holds", "## The patch against"


def lab_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lab_table", ROOT / "docs" / "lab_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return json.loads((ROOT / "docs" / "lab" / "lab.json").read_text(encoding="utf-8"))


def parts(page: str) -> tuple[str, str]:
    """What doesn't hold, and what does."""
    _, _, rest = page.partition(FAILS)
    fails, _, rest = rest.partition(HOLDS)
    holds, _, _ = rest.partition(PAIRED)
    return fails, holds


def test_the_page_shows_the_figures_that_were_kept(report: dict[str, Any]) -> None:
    text = (ROOT / "docs" / "lab" / "binding.md").read_text(encoding="utf-8")
    assert lab_table().page(report) == text, "run: nox -s lab_table"


def test_every_packaged_model_was_measured_at_a_commit(report: dict[str, Any]) -> None:
    for run in ("binding", "probes"):
        section = report[run]
        assert sorted(section["models"]) == kamera.packaged_models()
        assert section["commit"]["id"]
        assert section["commit"]["changed"] is False


def test_the_intervals_are_those_of_the_kept_series(report: dict[str, Any]) -> None:
    for model in report["binding"]["models"].values():
        kls = {arm: series["kl"] for arm, series in model["items"].items()}
        eta = eta_interval(kls["patch 16"], kls["blind"])
        assert eta is not None
        assert model["arms"]["patch 16"]["intervals"]["eta"] == pytest.approx(eta.json())
        assert [pair["rank"] for pair in model["paired"]] == list(RANKS)
        for pair in model["paired"]:
            found = eta_difference(kls[pair["arm"]], kls[pair["other"]], kls["blind"])
            assert found is not None
            assert pair["eta"] == pytest.approx(found.json())


def test_a_claim_that_fails_on_one_model_moves_up(report: dict[str, Any]) -> None:
    name = "`patch 16`: flip-recover"
    changed = copy.deepcopy(report)
    for model in changed["binding"]["models"].values():
        model["arms"]["patch 16"]["intervals"]["flip_recover"]["value"] = 0.97
    fails, holds = parts(lab_table().page(changed))
    assert name in holds
    assert name not in fails
    changed["binding"]["models"]["nano-mla"]["arms"]["patch 16"]["intervals"]["flip_recover"][
        "value"
    ] = 0.95
    fails, holds = parts(lab_table().page(changed))
    assert name in fails
    assert "**0.950" in fails
    assert name not in holds


def test_every_claim_stands_once(report: dict[str, Any]) -> None:
    table = lab_table()
    fails, holds = parts(table.page(report))
    for claim in table.claims().CLAIMS:
        rows = [
            line for line in (fails + holds).splitlines() if line.startswith(f"| {claim.figure} |")
        ]
        assert len(rows) == 1, claim.figure
