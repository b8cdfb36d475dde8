"""docs/performance.md is what docs/bench.json says, and says first what isn't reached."""

import copy
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MISSED, BESIDE, REACHED = "## What is not reached", "## Beside published", "## What is reached"


@pytest.fixture(scope="module")
def table() -> ModuleType:
    path = ROOT / "docs" / "performance_table.py"
    spec = importlib.util.spec_from_file_location("performance_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return json.loads((ROOT / "docs" / "bench.json").read_text(encoding="utf-8"))


def test_the_page_shows_the_figures_that_were_kept(
    table: ModuleType, figures: dict[str, Any]
) -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert table.page(figures) == text, "run: nox -s performance_table"


def test_every_report_names_its_machine_and_commit(figures: dict[str, Any]) -> None:
    for name, report in figures["benchmarks"].items():
        ran = report["environment"]
        assert ran["cpu"], name
        assert ran["commit"]["id"], name


def test_an_aim_that_is_missed_moves_up(table: ModuleType, figures: dict[str, Any]) -> None:
    changed = copy.deepcopy(figures)
    first = changed["benchmarks"]["ttft"]["aims"][0]
    first |= {"aim": "the first of all aims", "holds": False, "limit": 12.5, "why": "the question"}
    page = table.page(changed)
    head, _, tail = page.partition(BESIDE)
    assert head.count("the first of all aims | ") == 1
    assert "12.5" in head.partition(MISSED)[2]
    assert "- `ttft`: the first of all aims. The question." in head
    assert "the first of all aims" not in tail
    first["holds"] = True
    head, _, tail = table.page(changed).partition(BESIDE)
    assert "the first of all aims" not in head
    assert "the first of all aims" in tail.partition(REACHED)[2]


def test_a_benchmark_that_was_not_run_is_named(table: ModuleType, figures: dict[str, Any]) -> None:
    for name in figures["benchmarks"]:
        changed = copy.deepcopy(figures)
        del changed["benchmarks"][name]
        page = table.page(changed)
        absent = [line for line in page.splitlines() if line.startswith("Not run: ")]
        assert (f"`{name}`" in " ".join(absent)) is (name in table.EXPECTED)
    assert "Not run" in table.page({"benchmarks": {}})


def test_a_noisy_row_is_counted_and_marked(table: ModuleType, figures: dict[str, Any]) -> None:
    changed = copy.deepcopy(figures)
    for report in changed["benchmarks"].values():
        for row in report.get("rows", []):
            row["noisy"] = False
    assert "Noisy rows" not in table.page(changed)
    assert " ~" not in table.page(changed).replace("noisy (~)", "")
    changed["benchmarks"]["ttft"]["rows"][0]["noisy"] = True
    assert "Noisy rows: `ttft` 1." in table.page(changed)
    assert table.page(changed).count(") ~ |") == 1


def test_what_a_benchmark_says_beside_its_rows_is_shown(
    table: ModuleType, figures: dict[str, Any]
) -> None:
    changed = copy.deepcopy(figures)
    environment = next(iter(changed["benchmarks"].values()))["environment"]
    changed["benchmarks"]["scale"] = {
        "environment": environment,
        "rows": [],
        "is_million": True,
        "slopes": {"plan over window": 0.98765},
        "start_up": [{"known": 1000, "open_s": 0.00123, "nested": [1]}],
    }
    section = table.page(changed).partition("## `scale`")[2].partition("\n## ")[0]
    assert "Nothing here was run on a GPU" in table.page(changed)
    assert "is million: True." in section
    assert "Slopes: plan over window 0.988." in section
    assert "| known | open (s) |" in section
    assert "| 1000 | 0.00123 |" in section
