"""Attention over A and B is the merge of the parts: on made scores, small and large, and on models."""

import pytest
import torch

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.probes.case import Case, cases_of
from kamera.lab.probes.state_merge import attend, merge, probe_state_merge, rounding_bound
from kamera.lab.tasks import TASKS


def scores_and_values(scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(2, 5, 97, generator=generator) * scale
    return scores, torch.randn(2, 97, 8, generator=generator)


@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0])
def test_the_merge_of_parts_is_the_whole_within_the_derived_bound(scale: float) -> None:
    scores, values = scores_and_values(scale)
    parts = [attend(scores[..., a:b], values[:, a:b]) for a, b in ((0, 40), (40, 41), (41, 97))]
    gap = (merge(parts)[0] - attend(scores, values)[0]).abs()
    assert bool((gap <= rounding_bound(scores, values, parts)).all())


def test_in_float64_the_merge_leaves_nothing() -> None:
    scores, values = (t.double() for t in scores_and_values(3.0))
    parts = [attend(scores[..., a:b], values[:, a:b]) for a, b in ((0, 40), (40, 97))]
    merged, mass = merge(parts)
    assert (merged - attend(scores, values)[0]).abs().max() < 1e-13
    assert (mass - scores.logsumexp(-1, keepdim=True)).abs().max() < 1e-13


def test_the_bound_catches_parts_merged_without_their_mass() -> None:
    scores, values = scores_and_values(1.0)
    parts = [attend(scores[..., a:b], values[:, a:b]) for a, b in ((0, 40), (40, 97))]
    plain_mean = (parts[0][0] + parts[1][0]) / 2
    gap = (plain_mean - attend(scores, values)[0]).abs()
    assert float((gap / rounding_bound(scores, values, parts)).max()) > 100


def test_a_part_that_no_query_may_see_has_no_mass() -> None:
    scores, values = scores_and_values(1.0)
    scores[..., :40] = torch.finfo(torch.float32).min
    parts = [attend(scores[..., a:b], values[:, a:b]) for a, b in ((0, 40), (40, 97))]
    assert torch.equal(merge(parts)[0], parts[1][0])


def test_readout_is_lossless_on_a_random_model(engine, picture) -> None:
    prefix, tail = engine.frame("what is it?")
    chunks = (prefix, engine.image_chunk(picture(1)), engine.image_chunk(picture(2)))
    found = probe_state_merge(Case(Workbench(engine), chunks, 2, tail))
    assert 0 < found.worst <= 1
    assert all(0 < share < 1 for share in found.mass_on_b)


def test_readout_is_lossless_on_nano_gqa() -> None:
    engine = HFEngine.from_pretrained(kamera.packaged_model())
    items = TASKS["binding"].items(2)
    for case in cases_of(Workbench(engine), items):
        found = probe_state_merge(case)
        assert len(found.error) == engine.backbone.text_config.num_hidden_layers
        assert 0 < found.worst <= 1
        assert max(found.mass_on_b) > 0.3, "the question reads the item"
