"""docs/lab is what docs/lab/lab.json says, and the JSON what its own series say."""

import copy
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kamera
from kamera.lab.metrics_paired import eta_difference, eta_interval, flip_recover_interval
from kamera.lab.reproductions.judge import measured
from kamera.lab.runs.binding import RANKS, judged_figures
from kamera.lab.runs.catalog import RUNS
from kamera.lab.runs.svg import digest_of

LAB = Path(__file__).parents[2] / "docs" / "lab"
FAILS, HOLDS = "## What does not hold on ours", "## What holds"


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lab_table", LAB.parent / "lab_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return json.loads((LAB / "lab.json").read_text(encoding="utf-8"))


def parts(page: str) -> tuple[str, str]:
    """What doesn't hold, and what does."""
    _, _, rest = page.partition(FAILS)
    fails, _, rest = rest.partition(HOLDS)
    holds, _, _ = rest.partition("\n## ")
    return fails, holds


def test_the_pages_show_the_figures_that_were_kept(table: ModuleType, report: Any) -> None:
    for stem, text in table.pages(report).items():
        assert (LAB / f"{stem}.md").read_text(encoding="utf-8") == text, "run: nox -s lab_table"


def test_the_pictures_are_drawn_from_the_figures_that_were_kept(
    table: ModuleType, report: Any
) -> None:
    charts = table.pictures(report)
    assert {path.stem for path in (LAB / "figures").iterdir()} == set(charts)
    for stem, drawn in charts.items():
        svg = (LAB / "figures" / f"{stem}.svg").read_text(encoding="utf-8")
        assert digest_of(drawn) in svg, "run: nox -s lab_table"


def test_every_run_was_made_on_every_packaged_model_at_one_commit(report: Any) -> None:
    assert {name for name in report if name != "version"} == set(RUNS), "run: make lab, lab_table"
    for name in RUNS:
        section = report[name]
        assert sorted(measured(section)) == kamera.packaged_models(), name
        assert section["commit"]["id"]
        assert section["commit"]["changed"] is False


def test_every_run_s_page_is_in_the_index(table: ModuleType, report: Any) -> None:
    index = (LAB / "index.md").read_text(encoding="utf-8")
    pages = set(table.pages(report)) - {"index"}
    assert pages <= set(index.splitlines())
    assert all(f"]({stem}.md) |" in index for stem in pages)


def test_the_binding_figures_are_those_of_the_kept_series(report: Any) -> None:
    for model in measured(report["binding"]).values():
        kls = {arm: series["kl"] for arm, series in model["items"].items()}
        answers = {arm: series["answer"] for arm, series in model["items"].items()}
        eta = eta_interval(kls["patch 16"], kls["blind"])
        assert eta is not None
        assert model["arms"]["patch 16"]["intervals"]["eta"] == pytest.approx(eta.json())
        flips = flip_recover_interval(answers["epic 16"], answers["blind"], answers["re-prefill"])
        assert flips is not None
        assert model["figures"]["epic 16: flips"] == pytest.approx(flips.json())
        assert [pair["rank"] for pair in model["paired"]] == list(RANKS)
        for pair in model["paired"]:
            found = eta_difference(kls[pair["arm"]], kls[pair["other"]], kls["blind"])
            assert found is not None
            assert pair["eta"] == pytest.approx(found.json())
        assert model["figures"] == judged_figures(model["arms"], model["paired"])


def test_a_claim_that_fails_on_one_model_moves_up(table: ModuleType, report: Any) -> None:
    changed = copy.deepcopy(report["binding"])
    label, key = "`patch 16`: flip-recover", "patch 16: flips"
    for model in changed["models"].values():
        model["figures"][key]["value"] = 0.97
    fails, holds = parts(table.page(RUNS["binding"], changed))
    assert label in holds
    assert label not in fails
    changed["models"]["nano-mla"]["figures"][key]["value"] = 0.95
    fails, holds = parts(table.page(RUNS["binding"], changed))
    assert label in fails
    assert "**0.950" in fails
    assert label not in holds


def test_every_claim_stands_once(table: ModuleType, report: Any) -> None:
    for name, one in table.known(report).items():
        before_figure, _, _ = table.page(one, report[name]).partition("\n## What the paper")
        lines = before_figure.splitlines()
        for claim in one.claims:
            start = f"| {table.in_cell(claim.label)} | {table.in_cell(claim.paper)} |"
            assert sum(line.startswith(start) for line in lines) == 1, (name, claim.label)


def test_a_model_that_failed_is_named_with_its_reason(table: ModuleType, report: Any) -> None:
    changed = copy.deepcopy(report["probes"])
    changed["models"]["nano-mla"] = {"failed": "no | memory\nleft"}
    text = table.page(RUNS["probes"], changed)
    assert "- `nano-mla`: no \\| memory left" in text
    assert text.index("`nano-mla`: no") < text.index(HOLDS)
    assert "Not measured" not in text  # the other models have every figure
