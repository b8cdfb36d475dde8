"""Appendix D on nano-gqa: draws, the ends of each way to refresh, and the gate on made drifts."""

from typing import Any

import numpy as np
import pytest
import torch
from reproduced_section import MODEL, check_charts, check_claims, section_of

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.metrics import kl
from kamera.lab.probes import drift
from kamera.lab.probes.case import Case
from kamera.lab.probes.windows import Probe
from kamera.lab.reproductions.reuse_gate import (
    Drifts,
    false_reuse_curve,
    least_false_reuse,
    median_gap,
    over_items,
)
from kamera.lab.tasks import binding
from kamera.patch import form_patch


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    return section_of("appendix-d", 8)  # 2 cases


@pytest.fixture(scope="module")
def nano() -> HFEngine:
    return HFEngine.from_pretrained(kamera.packaged_model(MODEL))


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    check_claims("appendix-d", section)
    check_charts("appendix-d", section)


def test_a_stale_patch_by_hand(section: dict[str, Any], nano: HFEngine) -> None:
    stale, blind = 0.0, 0.0
    for number in range(2):
        one = drift.drawn(number)
        bench = Workbench(nano)
        prefix, tail = nano.frame(binding.QUESTION)
        assert prefix is not None
        cases = {
            name: Case(
                bench,
                (prefix, *(nano.image_chunk(f.image) for f in (*frames, one.item))),
                4,
                tail,
            )
            for name, frames in {"old": one.old, "new": one.new}.items()
        }
        patch = form_patch(cases["old"].delta(), "old", 16)
        reference = cases["new"].reference()
        stale += kl(cases["new"].with_patch(patch), reference)
        blind += kl(cases["new"].with_patch(None), reference)
    figure = section["models"][MODEL]["figures"]["replace all: stale eta"]
    assert figure["value"] == pytest.approx(1 - stale / blind, rel=1e-4)


def test_where_nothing_changed_stale_is_as_good_as_new(section: dict[str, Any]) -> None:
    figures = section["models"][MODEL]["figures"]
    assert figures["superset 0: stale eta"] == figures["superset 0: rebuilt eta"]
    assert figures["refresh 0: stale eta"] == figures["refresh 0: update eta"]
    for d in drift.DISTRACTORS:
        # Full rank: re-prefill to float32's rounding, whose KL is far below 1e-6 of some eight nats.
        assert figures[f"refresh {d}: rebuild eta"]["value"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("deep", [True, False])
def test_all_layers_refreshed_are_re_prefill(deep: bool, nano: HFEngine, monkeypatch) -> None:
    monkeypatch.setattr(drift, "DEEP", 1.0 if deep else 0.0)
    probe = Probe(nano, Workbench(nano))
    prefix, _ = probe.frame()
    one = drift.drawn(0)
    window = [*prefix, *probe.chunks([*one.new, one.item])]
    stale = form_patch(
        probe.bench.delta([*prefix, *probe.chunks([*one.old, one.item])], 4), "old", 16
    )
    found = drift.refreshed(probe, window, 4, stale, deep=deep)
    for name, truth in probe.bench.conditioned(window, 4).tensors.items():
        # Eight layers of float32, summed in another order: as `layers` from 0 on is held to.
        torch.testing.assert_close(found.tensors[name], truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("number", range(4))
def test_draws_change_what_they_say(number: int) -> None:
    one = drift.drawn(number)
    color = one.item.color
    told = [
        {tile.color: tile.digit for tile in frames[one.teller].tiles}
        for frames in (one.old, one.new)
    ]
    assert told[0][color] != told[1][color]
    assert all(tile.color != color for frame in one.distractors for tile in frame.tiles)
    changed = {kind: drift.perturbed(one, kind, number) for kind in drift.PERTURBATIONS}
    assert all(len(frames) == drift.NUM_FRAMES for frames in changed.values())
    old = [id(frame) for frame in one.old]
    now = {kind: [id(frame) for frame in frames] for kind, frames in changed.items()}
    assert now["reorder"] != old
    assert sorted(now["reorder"]) == sorted(old)
    assert len(set(now["drop"])) == drift.NUM_FRAMES - 1
    for kind in ("drop", "replace one"):
        assert now[kind][one.teller] == old[one.teller]
    for kind in ("replace one", "replace teller"):
        assert sum(a != b for a, b in zip(now[kind], old, strict=True)) == 1
    assert now["replace teller"][one.teller] != old[one.teller]
    assert not set(now["replace all"]) & set(old)


def test_the_gate_on_made_drifts() -> None:
    divergence = np.array([[0.1, 0.2], [0.3, 0.4]])
    sound = Drifts(divergence, np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert false_reuse_curve(sound) == ([0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 1 / 3, 0.5])
    assert least_false_reuse(sound) == 0.0
    assert median_gap(sound) == pytest.approx(0.2)
    useless = Drifts(divergence, np.array([[1.0, 1.0], [0.0, 0.0]]))
    assert least_false_reuse(useless) == 0.5, "it must open to the end"
    assert median_gap(useless) == pytest.approx(-0.2)
    assert over_items(Drifts(divergence, np.zeros((2, 2))), median_gap)["value"] is None
    found = over_items(sound, least_false_reuse)
    assert (found["low"], found["high"], found["n"]) == (0.0, 1.0, 2)
