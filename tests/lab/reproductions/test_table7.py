"""Table 7 on two items of nano-gqa."""

import statistics
from typing import Any

import pytest

from kamera.lab.metrics import kl
from kamera.lab.probes.energy import components_for, energy_curve
from kamera.lab.probes.mask_isolation import blocked_forward
from kamera.lab.reproductions import table7
from kamera.lab.reproductions.subject import Subject


@pytest.fixture(scope="module")
def model(subject: Subject) -> dict[str, Any]:
    return table7.run(subject)


def test_every_claim_has_its_figure(model: dict[str, Any]) -> None:
    for claim in table7.REPRODUCTION.claims:
        assert claim.verdict(model["figures"]) != "not measured", claim.label


def test_figures_by_hand(subject: Subject, model: dict[str, Any]) -> None:
    """Loss and the median by the masked forward; e90 over the layers from the first that sees A."""
    losses, shares = [], []
    for case in subject.cases():
        _, masked = blocked_forward(case.up_to_target())
        losses.append(kl(masked, case.up_to_target().reference()))
        needed = components_for(energy_curve(case.delta()["v"])[1:])  # layer 0's V hasn't seen A
        shares.append(float(needed.mean()) / case.chunk.num_tokens)
    figures = model["figures"]
    assert figures["loss: kl"]["value"] == pytest.approx(statistics.mean(losses))
    assert figures["e90 of the content"]["value"] == pytest.approx(statistics.mean(shares))
    assert figures["gap at 64"]["n"] == len(losses) == subject.num_cases


def test_a_higher_rank_closes_no_less_and_full_rank_all(model: dict[str, Any]) -> None:
    low, middle, full = (model["figures"][f"gap at {rank}"]["value"] for rank in table7.RANKS)
    assert low <= middle <= full
    assert 1.0 - full < 1e-6  # float32 rounding of the KL, against a loss of several nats
    assert model["figures"]["conditioning: share"]["value"] > 1.0 - 1e-6


def test_charts_have_the_papers_range(model: dict[str, Any]) -> None:
    kls, closed = table7.charts({"nano-gqa": model})
    assert [series.name for series in kls.series] == ["loss", "control"]
    assert [value for _, value in closed.levels] == [0.85, 0.96]
