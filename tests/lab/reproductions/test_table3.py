"""Table 3 on two items of nano-gqa."""

from typing import Any

import pytest

from kamera.arms import Workbench
from kamera.lab.evaluation import answer_id, request_of
from kamera.lab.reproductions import table3
from kamera.lab.reproductions.few_arms import few_tallies
from kamera.lab.reproductions.subject import Subject


@pytest.fixture(scope="module")
def model(subject: Subject) -> dict[str, Any]:
    return table3.run(subject)


def test_every_claim_has_its_figure(model: dict[str, Any]) -> None:
    for claim in table3.REPRODUCTION.claims:
        assert claim.verdict(model["figures"]) != "not measured", claim.label


def test_blind_accuracy_by_hand(subject: Subject, model: dict[str, Any]) -> None:
    """Canonicals relocated, the question behind them: no arm in it."""
    right = []
    for item in subject.items("shell_game", 2):
        bench, request = Workbench(subject.engine), request_of(subject.engine, item)
        logits = bench.finish(request, bench.blind(request.cached)).logits
        right.append(int(logits.argmax()) == answer_id(subject.engine, item))
    figures = model["figures"]
    assert figures["shell_game, blind: accuracy"]["value"] == sum(right) / len(right)
    lost = figures["shell_game, re-prefill - blind: accuracy"]
    assert lost["value"] == figures["shell_game, re-prefill: accuracy"]["value"] - sum(right) / 2


def test_ends_are_exact(subject: Subject, model: dict[str, Any]) -> None:
    for task in table3.PAPER:
        assert model["figures"][f"{task}, re-prefill: kl"]["value"] == 0.0
        assert model["figures"][f"{task}, blind: eta"]["value"] == 0.0
    kls = few_tallies(subject, "needle")
    assert max(kls["patch 64"].kls) <= max(kls["patch 16"].kls)


def test_one_panel_a_task(model: dict[str, Any]) -> None:
    found = table3.charts({"nano-gqa": model})
    assert [chart.title for chart in found] == ["needle", "shell_game", "binding"]
    assert found[0].series[0].x == table3.SHOWN_ARMS
