"""Table 2 on a few items of nano-gqa."""

from typing import Any

import numpy as np
import pytest

from kamera.lab.reproductions import table2
from kamera.lab.reproductions.subject import Subject


@pytest.fixture(scope="module")
def model(subject: Subject) -> dict[str, Any]:
    return table2.run(subject)


def test_every_claim_has_its_figure(model: dict[str, Any]) -> None:
    for claim in table2.REPRODUCTION.claims:
        assert claim.verdict(model["figures"]) != "not measured", claim.label


def test_a_leading_segment_has_no_deficit(subject: Subject, model: dict[str, Any]) -> None:
    """What is left is float32 rounding: nothing beside what a chunk behind it loses."""
    assert model["figures"]["leading: kl"]["n"] == subject.num_cases
    blind = np.mean(subject.tallies("binding")["blind"].kls)
    assert model["figures"]["leading: kl"]["value"] < 1e-9 * blind


def test_costs_by_hand(subject: Subject, model: dict[str, Any]) -> None:
    """Rank 16 on two frames: m · (T + F) numbers of K and V in each of 8 layers; half for the deep."""
    figures, engine = model["figures"], subject.engine
    patch = whole = work = 0
    for item in subject.items("binding"):
        prefix, _tail = engine.frame(item.question)
        assert prefix is not None
        tokens = [engine.image_chunk(frame.image).num_tokens for frame in item.frames]
        features = 64
        patch += sum(2 * 8 * 4 * 16 * (count + features) for count in tokens)
        whole += 2 * 8 * 4 * features * (prefix.num_tokens + sum(tokens))
        work += sum(tokens) / (prefix.num_tokens + sum(tokens)) * 5 / 8 / 2
    assert figures["patch 16: bytes"]["value"] == patch / whole
    assert figures["deep: bytes over the patch's"]["value"] == 0.5
    assert figures["patch 16: work"]["value"] == 0.0
    assert figures["layers from 3: work"]["value"] == pytest.approx(work)


def test_an_orderings_own_patch_is_the_orbits_ceiling(model: dict[str, Any]) -> None:
    figures = model["figures"]
    exact, orbit = figures["reorder, exact: eta"]["value"], figures["reorder, orbit: eta"]["value"]
    assert exact >= orbit > 0.9
    assert figures["reorder: exact - orbit"]["value"] == pytest.approx(exact - orbit)


def test_bars_have_one_group_a_model(model: dict[str, Any]) -> None:
    (chart,) = table2.charts({"one": model, "two": model})
    assert [series.name for series in chart.series] == ["one", "two"]
    assert len(chart.series[0].x) == len(chart.series[0].y) == 10
