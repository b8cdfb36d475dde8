"""Figure 5 on nano-gqa, and the functional rank's interval on made sweeps."""

from typing import Any

import pytest
from reproduced_section import MODEL, check_charts, check_claims, section_of

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.metrics import kl
from kamera.lab.probes.case import cases_of
from kamera.lab.probes.rank_sweep import RankSweep
from kamera.lab.reproductions.fig5 import held_out_share, share_at
from kamera.lab.reproductions.knee import functional_rank_of
from kamera.lab.tasks import TASKS
from kamera.patch import form_patch


def made(*kls: float) -> RankSweep:
    """Blind at 1 nat."""
    ranks = tuple(2**place for place in range(len(kls)))
    return RankSweep(ranks, kls, tuple(1 - k for k in kls), 1.0, ranks[-1], 1)


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    return section_of("fig5", 8)  # 2 cases


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    check_claims("fig5", section)
    check_charts("fig5", section)


def test_a_points_kl_is_that_of_the_patch_formed_at_its_rank(section: dict[str, Any]) -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model(MODEL)))
    found = []
    for case in cases_of(bench, TASKS["binding"].items(2)):
        logits = case.with_patch(form_patch(case.delta(), "own", 1))
        found.append(kl(logits, case.reference()))
    curve = section["models"][MODEL]["curves"]["kl"]
    assert curve["x"][0] == 1
    # Fitted at rank 1 or cut to it: the same singular vectors, float32 logits of some ten nats.
    assert curve["y"][0] == pytest.approx(sum(found) / 2, rel=1e-2, abs=1e-9)


def test_equal_items_have_one_functional_rank_and_unequal_ones_an_interval() -> None:
    equal = functional_rank_of([made(0.5, 0.02, 0.0)] * 4)
    assert (equal["low"], equal["value"], equal["high"], equal["n"]) == (2, 2, 2, 4)
    mixed = functional_rank_of([made(0.0, 0.0, 0.0)] * 3 + [made(0.9, 0.9, 0.0)])
    assert (mixed["low"], mixed["value"], mixed["high"]) == (1, 4, 4)
    assert functional_rank_of([made(0.5, 0.02, 0.0)])["low"] is None


def test_the_held_out_share_is_of_the_other_items() -> None:
    thin, thick = made(0.0, 0.0, 0.0), made(0.4, 0.1, 0.0)
    assert held_out_share([thin, thick])["value"] == pytest.approx(0.6)  # rank 1 on the thick one
    assert held_out_share([thick, thin])["value"] == pytest.approx(1.0)
    assert held_out_share([thin])["value"] is None
    assert share_at([thick], 4)["value"] == pytest.approx(1.0)
