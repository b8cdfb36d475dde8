"""Figure 9 on nano-gqa, and its least step on made sweeps."""

from typing import Any

import pytest
from reproduced_section import MODEL, check_charts, check_claims, section_of

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.metrics import kl
from kamera.lab.probes.case import cases_of
from kamera.lab.probes.rank_sweep import RankSweep
from kamera.lab.reproductions.fig9 import FLOOR, smallest_step
from kamera.lab.tasks import TASKS


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    return section_of("fig9", 8)  # 2 cases


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    check_claims("fig9", section)
    check_charts("fig9", section)


def test_the_gap_and_the_accuracy_are_those_of_the_cases(section: dict[str, Any]) -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model(MODEL)))
    gaps, right = [], []
    for case in cases_of(bench, TASKS["binding"].items(2)):
        reference = case.reference()
        gaps.append(kl(case.with_kv(case.blind()), reference))
        right.append(int(reference.argmax()) == case.answer)
    figures = section["models"][MODEL]["figures"]
    # The same KV, relocated by `at` or by `apply` without a patch: float32 logits of some ten nats.
    assert figures["blind: kl"]["value"] == pytest.approx(sum(gaps) / 2, rel=1e-4)
    assert figures["blind: kl"]["value"] > FLOOR
    assert figures["re-prefill: accuracy"]["value"] == sum(right) / 2


def test_more_rank_closes_more_to_the_end(section: dict[str, Any]) -> None:
    figures = section["models"][MODEL]["figures"]
    assert figures["rank 64: eta"]["value"] >= figures["rank 16: eta"]["value"] - 1e-6
    assert figures["rank 64: eta"]["value"] == pytest.approx(1.0, abs=1e-6)


def test_the_least_step_finds_the_rank_that_makes_it_worse() -> None:
    good = RankSweep((1, 2, 4), (0.6, 0.3, 0.2), (0.4, 0.7, 0.8), 1.0, 4, 1)
    bad = RankSweep((1, 2, 4), (0.3, 0.8, 0.0), (0.7, 0.2, 1.0), 1.0, 4, 1)
    assert smallest_step([good])["value"] == pytest.approx(0.1)
    assert smallest_step([good, bad])["value"] == pytest.approx((0.9 - 1.1) / 2)
