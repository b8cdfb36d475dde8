"""Table 8 on two items of nano-gqa."""

from typing import Any

import pytest

from kamera.lab.reproductions import table8
from kamera.lab.reproductions.subject import Subject


@pytest.fixture(scope="module")
def model(subject: Subject) -> dict[str, Any]:
    return table8.run(subject)


def test_every_claim_has_its_figure(model: dict[str, Any]) -> None:
    for claim in table8.REPRODUCTION.claims:
        assert claim.verdict(model["figures"]) != "not measured", claim.label


def test_no_layer_is_blind_and_all_layers_are_re_prefill(model: dict[str, Any]) -> None:
    curve = model["layers"]
    assert list(curve) == [f"{share / 8:g}" for share in range(9)]
    assert curve["0"]["value"] == pytest.approx(0.0, abs=1e-9)
    assert curve["1"]["value"] == pytest.approx(1.0, abs=1e-9)


def test_the_first_share_is_the_smallest_that_reaches() -> None:
    layers = {0.0: [4.0, 4.0], 0.5: [0.5, 1.5], 1.0: [0.0, 0.0]}
    blind = [4.0, 4.0]
    for target, share in ((0.75, 0.5), (0.7505, 0.5), (0.76, 1.0), (0.0, 0.0), (1.0, 1.0)):
        assert table8.first_to_reach(layers, blind, target) == share
    assert table8.first_to_reach(layers, blind, None) is None


def test_shares_to_match_by_hand(subject: Subject, model: dict[str, Any]) -> None:
    """From the tallies: walk down from blind until the layers' η is the patch's."""
    tallies = subject.some_tallies("binding", table8.sweep_arms, subject.num_cases)
    blind = sum(tallies["blind"].kls)
    target = 1 - sum(tallies["patch 1"].kls) / blind
    first = 8
    while 1 - sum(tallies[f"layers from {first}"].kls) / blind < target - 0.001:
        first -= 1
    assert model["figures"]["re-run to match patch 1"]["value"] == (8 - first) / 8


def test_one_panel_a_model_with_levels(model: dict[str, Any]) -> None:
    (chart,) = table8.charts({"nano-gqa": model})
    assert [name for name, _ in chart.levels] == ["patch 1", "patch 16", *table8.TOKENS]
