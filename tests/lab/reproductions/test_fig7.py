"""Figure 7 from tallies: of the arms on two items of nano-gqa, and of made ones."""

from typing import Any

import pytest
from reproduced_section import MODEL, check_charts, check_claims

import kamera
from kamera.arms import Arm, Blind, Patched, Reprefill, Workbench
from kamera.arms.budget import Count
from kamera.arms.cacheblend import CacheBlend
from kamera.arms.epic import Epic
from kamera.arms.mpic import Mpic
from kamera.arms.vlcache import VLCache
from kamera.engines.hf import HFEngine
from kamera.lab.evaluation import BLIND, REFERENCE, Tally, compare_arms
from kamera.lab.reproductions.fig7 import PATCH, TOKEN_ARMS, figures_of
from kamera.lab.tasks import TASKS


def its_arms(bench: Workbench) -> list[Arm]:
    return [
        Reprefill(bench.engine),
        Blind(bench),
        Patched(bench, 16),
        CacheBlend(bench, 0.15),
        Epic(bench, Count(16)),
        Mpic(bench, Count(32)),
        VLCache(bench, 0.10),
    ]


@pytest.fixture(scope="module")
def tallies() -> dict[str, Tally]:
    engine = HFEngine.from_pretrained(kamera.packaged_model(MODEL))
    return compare_arms(engine, TASKS["binding"], 3, make=its_arms, num_learned=0)


@pytest.fixture(scope="module")
def section(tallies: dict[str, Tally]) -> dict[str, Any]:
    return {"models": {MODEL: figures_of(tallies)}}


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    check_claims("fig7", section)
    check_charts("fig7", section)


def test_an_arms_share_of_the_gap_by_hand(section: dict[str, Any], tallies: Any) -> None:
    figures = section["models"][MODEL]["figures"]
    for arm in (PATCH, *TOKEN_ARMS):
        closed = 1 - sum(tallies[arm].kls) / sum(tallies[BLIND].kls)
        assert figures[f"{arm}: eta"]["value"] == pytest.approx(closed)
        assert figures[f"{arm}: eta"]["n"] == 3
    assert section["models"][MODEL]["kl"][BLIND] == sorted(tallies[BLIND].kls)


def test_an_arm_that_is_blind_and_one_that_is_re_prefill() -> None:
    kls, answers = [1.0, 2.0, 4.0], [5, 6, 7]
    correct = [True] * 3
    blind = Tally(answers=[5, 0, 0], kls=kls, correct=correct)
    nothing_lost = Tally(answers=answers, kls=[0.0] * 3, correct=correct)
    made = dict.fromkeys(TOKEN_ARMS, blind) | {BLIND: blind}
    found = figures_of({**made, REFERENCE: nothing_lost, PATCH: nothing_lost})["figures"]
    assert found["flips"]["value"] == 2
    assert found[f"{PATCH}: eta"]["value"] == found[f"{PATCH}: flips"]["value"] == 1.0
    assert found[f"{PATCH}: median kl / blind"]["value"] == 0.0
    for arm in TOKEN_ARMS:
        assert found[f"{arm}: eta"]["value"] == found[f"{arm}: flips"]["value"] == 0.0
        assert found[f"{arm}: median kl / blind"]["value"] == 1.0
        assert found[f"{PATCH} - {arm}"]["value"] == 1.0
