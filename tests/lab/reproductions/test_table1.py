"""Table 1 on a few items of nano-gqa."""

from typing import Any

import numpy as np
import pytest

from kamera.lab.probes.windows import probe_survivor, recall_items
from kamera.lab.reproductions import table1
from kamera.lab.reproductions.subject import Subject


@pytest.fixture(scope="module")
def model(subject: Subject) -> dict[str, Any]:
    return table1.run(subject)


def test_every_claim_has_its_figure(model: dict[str, Any]) -> None:
    for claim in table1.REPRODUCTION.claims:
        assert claim.verdict(model["figures"]) != "not measured", claim.label


def test_figures_are_the_probes_own(subject: Subject, model: dict[str, Any]) -> None:
    figures = model["figures"]
    recall = recall_items(subject.engine, subject.num_cases, told_by=0)
    for turnover, outcome in recall.items():
        for arm in ("stale", "fresh"):
            gap = 1 - np.mean(outcome.kls[arm]) / np.mean(outcome.kls["blind"])
            assert figures[f"{arm} at {turnover:g}: eta"]["value"] == pytest.approx(gap)
        assert np.mean(outcome.kls["blind"]) > 1.0, "η says something at each turnover"
    survivor = probe_survivor(subject.engine, subject.num_cases)
    assert figures["stays, keep: kl"]["value"] == pytest.approx(survivor["kl_keep"])
    left = survivor["told_by_departed"]
    assert figures["left, keep: kl"]["value"] == pytest.approx(left["kl_keep"])


def test_without_turnover_the_stale_patch_is_the_fresh_one(model: dict[str, Any]) -> None:
    figures = model["figures"]
    assert figures["stale at 0: eta"] == figures["fresh at 0: eta"]
    assert figures["stale at 1: eta"]["value"] < figures["fresh at 1: eta"]["value"]


def test_a_removal_patch_of_full_rank_removes_all(model: dict[str, Any]) -> None:
    """Rank 64 is full rank for a nano-gqa chunk: what is left is float32 rounding of the logits."""
    figures = model["figures"]
    assert 1.0 - figures["left, removal 64: eta"]["value"] < 1e-6
    assert figures["left, removal 4: eta"]["value"] < figures["left, removal 64: eta"]["value"]


def test_the_chart_has_the_papers_ends(model: dict[str, Any]) -> None:
    (chart,) = table1.charts({"nano-gqa": model})
    assert [series.paper for series in chart.series] == [False, False, True]
    assert list(chart.series[0].x) == list(table1.TURNOVERS)
