"""Depth profile and single-layer injection: their end points are exact, and nano-gqa binds in depth."""

import pytest
import torch

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.probes.case import Case, cases_of
from kamera.lab.probes.depth_profile import deep_over_shallow, probe_depth_profile
from kamera.lab.probes.single_layer import probe_single_layer
from kamera.lab.tasks import TASKS


@pytest.fixture
def case(engine, picture) -> Case:
    prefix, tail = engine.frame("what is it?")
    chunks = (prefix, engine.image_chunk(picture(1)), engine.image_chunk(picture(2)))
    return Case(Workbench(engine), chunks, 2, tail)


def test_depth_is_the_last_third_over_the_first() -> None:
    assert deep_over_shallow(torch.tensor([1.0, 1.0, 5.0, 5.0, 3.0, 3.0])) == 3.0
    assert deep_over_shallow(torch.tensor([0.0, 1.0, 2.0])) is None


def test_position_adds_nothing_and_the_first_layer_absorbs_nothing(case) -> None:
    for profile in probe_depth_profile([case]).values():
        assert max(profile.position) < 1e-3 * min(profile.deficit[1:])
        assert profile.deficit[0] < 1e-3 * min(profile.deficit[1:])
        assert all(value > 0 for value in profile.specific[1:])


def test_text_before_the_chunk_has_no_filler(engine, picture) -> None:
    prefix, tail = engine.frame("what is it?")
    case = Case(Workbench(engine), (prefix, engine.image_chunk(picture(1))), 1, tail)
    for profile in probe_depth_profile([case]).values():
        assert max(profile.specific) < 1e-3 * min(profile.deficit[1:])


def test_injection_explains_nothing_at_the_first_layer_and_all_at_the_last(case) -> None:
    explained = probe_single_layer([case]).explained
    assert len(explained) == case.bench.canonical(case.chunk).num_layers
    # KV off by r of its norm moves the share by at most 2 r / d + (r / d)^2, with d = ‖Δ‖ / ‖KV‖. For r:
    # twice what a plain prefill of B differs by at another position.
    profiles = probe_depth_profile([case]).values()
    bound = max(2 * 2 * p.position[-1] / p.deficit[-1] for p in profiles) * 1.01
    assert explained[0] == pytest.approx(0.0, abs=bound)
    assert explained[-1] == pytest.approx(1.0, abs=bound)
    assert bound < 1e-4
    assert explained[1] < explained[-2]


def test_on_nano_gqa_the_deficit_is_deep() -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model()))
    items = TASKS["binding"].items(3)
    for profile in probe_depth_profile(cases_of(bench, items)).values():
        assert profile.n == 3
        assert profile.deep_over_shallow is not None
        assert profile.deep_over_shallow > 2
    explained = probe_single_layer(cases_of(bench, items)).explained
    assert explained[-1] > 0.999 > 0.9 > explained[1]
