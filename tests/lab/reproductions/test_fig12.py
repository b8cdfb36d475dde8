"""Figure 12 on two items of nano-gqa."""

from typing import Any

import pytest
import torch

import kamera
from kamera.arms import Workbench
from kamera.channels import ChunkKV
from kamera.engines.hf import HFEngine
from kamera.lab.metrics import kl
from kamera.lab.probes.case import cases_of
from kamera.lab.reproductions import fig12
from kamera.lab.reproductions.subject import Subject


@pytest.fixture(scope="module")
def model(subject: Subject) -> dict[str, Any]:
    return fig12.run(subject)


def test_every_claim_has_its_figure(model: dict[str, Any]) -> None:
    for claim in fig12.REPRODUCTION.claims:
        assert claim.verdict(model["figures"]) != "not measured", claim.label


def test_blind_kl_in_bf16_by_hand(subject: Subject, model: dict[str, Any]) -> None:
    engine = HFEngine.from_pretrained(kamera.packaged_model(), dtype="bfloat16")
    found = []
    for case in cases_of(Workbench(engine), subject.items("binding", subject.num_cases)):
        assert case.blind().dtype == torch.bfloat16
        found.append(kl(case.with_kv(case.blind()), case.reference()))
    figure = model["figures"]["bf16, rotated: kl"]
    assert (figure["value"], figure["n"]) == (pytest.approx(sum(found) / len(found)), len(found))


def test_full_rank_gives_recomputes_kv_back(model: dict[str, Any]) -> None:
    """One rounding, half an ULP, on each side: at most one ULP apart; and the KL of KV handed over."""
    figures = model["figures"]
    assert figures["bf16, full rank: ULP"]["value"] <= 1.0
    assert figures["bf16, full rank: kl"]["value"] < 1e-3 * figures["bf16, rotated: kl"]["value"]


def test_ulps_are_those_of_a_heads_largest_number() -> None:
    """bf16 has 8 significant bits: numbers in [1, 2) lie 2⁻⁷ apart."""
    target = torch.tensor([1.5, 0.001]).view(1, 1, 1, 2)
    off = target + torch.tensor([0.0, 2.0**-6]).view(1, 1, 1, 2)
    pair = [ChunkKV({"k": t, "v": target}) for t in (off, target)]
    assert fig12.in_ulps(*pair).tolist() == pytest.approx([0.0, 2.0, 0.0, 0.0], abs=1e-6)


def test_errors_by_offset_have_the_probes_largest(model: dict[str, Any]) -> None:
    errors = model["errors"]
    assert max(errors["y"]) == model["figures"]["relocation: key error"]["value"] < 1e-6
    assert len(errors["x"]) == len(errors["y"])


def test_charts_of_all_three_panels(model: dict[str, Any]) -> None:
    steps, offsets, accuracy = fig12.charts({"nano-gqa": model})
    assert list(steps.series[0].x) == list(fig12.STEPS)
    assert offsets.levels[0][1] == 2**-8
    assert len(accuracy.series[0].y) == 4
