"""Arms compared item by item on the packaged nano-gqa's binding task, with intervals and paired tests."""

from typing import Any

import pytest

import kamera
from kamera.arms import (
    Arm,
    Blind,
    Epic,
    Patched,
    PrefixCache,
    Reprefill,
    SameBytes,
    ShallowSeed,
    SharedBasis,
    TopDeficit,
    Workbench,
)
from kamera.engines.hf import HFEngine
from kamera.lab.evaluation import Tally, against, best_token_arm, compare_arms, with_intervals
from kamera.lab.tasks import TASKS

NUM_ITEMS = 12


def few(bench: Workbench) -> list[Arm]:
    return [
        Reprefill(bench.engine),
        PrefixCache(bench.engine),
        Blind(bench),
        Patched(bench, 1),
        Patched(bench, 4),
        SharedBasis(bench, 4),
        ShallowSeed(bench, 3),
        TopDeficit(bench, SameBytes(4)),
        Epic(bench, SameBytes(4)),
    ]


@pytest.fixture(scope="module")
def tallies() -> dict[str, Tally]:
    engine = HFEngine.from_pretrained(kamera.packaged_model())
    seen: list[tuple[str, int, int]] = []
    found = compare_arms(
        engine,
        TASKS["binding"],
        NUM_ITEMS,
        make=few,
        num_learned=4,
        progress=lambda *at: seen.append(at),
    )
    assert seen == [("binding", n + 1, NUM_ITEMS) for n in range(NUM_ITEMS)]
    return found


def test_every_figure_has_its_interval(tallies: dict[str, Tally]) -> None:
    report: dict[str, Any] = with_intervals(tallies)
    assert list(report) == list(tallies)
    for figures in report.values():
        assert figures["n"] == NUM_ITEMS
        for name, interval in figures["intervals"].items():
            assert interval["value"] == pytest.approx(figures[name])
            assert interval["low"] <= interval["value"] <= interval["high"]
    assert report["re-prefill"]["intervals"]["kl"]["high"] == 0.0


def test_the_patch_is_closer_than_tokens_of_the_same_bytes(tallies: dict[str, Tally]) -> None:
    for other in ("oracle top = rank 4", "epic = rank 4"):
        found = against(tallies, "patch 4", other)
        assert found["eta"]["low"] > 0
        assert found["eta"]["p_value"] < 0.05
        assert 1.0 <= found["bytes_ratio"] < 1.5  # tokens are rounded down


def test_a_shared_basis_helps_items_that_it_was_not_learned_on(tallies: dict[str, Tally]) -> None:
    """Less than the item's own directions at the same rank, for fewer bytes."""
    report = with_intervals(tallies)
    shared, own = report["shared basis 4"], report["patch 4"]
    assert shared["intervals"]["eta"]["low"] > 0
    assert shared["kl"] > own["kl"]
    assert shared["num_bytes"] < own["num_bytes"]


def test_a_shallow_seed_does_not_tell_the_deep_deficit(tallies: dict[str, Tally]) -> None:
    """As the paper found."""
    assert with_intervals(tallies)["shallow seed 3"]["intervals"]["eta"]["high"] < 0.98


def test_the_best_token_arm_is_the_best_of_those_that_keep_no_more(
    tallies: dict[str, Tally],
) -> None:
    rival = best_token_arm(tallies, "patch 4")
    assert rival in ("oracle top = rank 4", "epic = rank 4")
    assert all(
        sum(tallies[rival].kls) <= sum(tallies[name].kls)
        for name in ("oracle top = rank 4", "epic = rank 4")
    )
    assert best_token_arm(tallies, "patch 1") is None  # both were given the bytes of rank 4
    found = against(tallies, "patch 4", rival)
    assert found["eta"]["low"] > 0
