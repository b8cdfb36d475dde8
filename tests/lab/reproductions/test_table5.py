"""Table 5 on two items of nano-gqa."""

from typing import Any

import pytest

from kamera.lab.reproductions import table5
from kamera.lab.reproductions.few_arms import few_tallies
from kamera.lab.reproductions.subject import Subject


@pytest.fixture(scope="module")
def model(subject: Subject) -> dict[str, Any]:
    return table5.run(subject)


def test_every_claim_has_its_figure(model: dict[str, Any]) -> None:
    for claim in table5.REPRODUCTION.claims:
        assert claim.verdict(model["figures"]) != "not measured", claim.label


def test_flips_by_hand(subject: Subject, model: dict[str, Any]) -> None:
    """Both items flip on nano-gqa; an arm's share is how often it answers as re-prefill does."""
    tallies = few_tallies(subject, "shell_game")
    truth, blind = tallies["re-prefill"].answers, tallies["blind"].answers
    flipped = [i for i in range(2) if truth[i] != blind[i]]
    assert flipped, "nothing to recover"
    for arm in table5.ARMS:
        restored = [tallies[arm].answers[i] == truth[i] for i in flipped]
        figure = model["figures"][f"{arm}: flips"]
        assert (figure["value"], figure["n"]) == (sum(restored) / len(flipped), len(flipped))
    gap = model["figures"]["vlcache 10% - sink 32: flips"]["value"]
    vlcache, sink = (
        model["figures"][f"{arm}: flips"]["value"] for arm in ("vlcache 10%", "sink 32")
    )
    assert gap == pytest.approx(vlcache - sink)


def test_a_scene_is_shorter_than_rank_64(model: dict[str, Any]) -> None:
    """18 tokens: the patch is of full rank, and what is left is float32 rounding."""
    figures = model["figures"]
    assert figures["patch 64: kl"]["value"] < 1e-9 * figures["blind: kl"]["value"]
    assert figures["patch 64: flips"]["value"] == 1.0


def test_bars_have_every_arm(model: dict[str, Any]) -> None:
    (chart,) = table5.charts({"nano-gqa": model})
    assert chart.series[0].x == table5.ARMS
