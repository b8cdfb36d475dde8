"""Rank sweep, functional rank, energy curves and e90, on made deficits, a random model and nano-gqa."""

import pytest
import torch

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.probes.case import Case, cases_of
from kamera.lab.probes.energy import components_for, energy_curve, probe_energy
from kamera.lab.probes.rank_sweep import functional_rank, probe_rank_sweep
from kamera.lab.tasks import TASKS


def test_equal_singular_values_share_the_energy_evenly() -> None:
    delta = torch.eye(10)[None].repeat(2, 1, 1)
    curve = energy_curve(delta)
    assert torch.allclose(curve[0], torch.arange(1, 11).double() / 10)
    assert components_for(curve, 0.85).tolist() == [9.0, 9.0]


def test_a_rank_one_deficit_needs_one_component_and_none_is_no_error() -> None:
    one = torch.randn(1, 12, 1) @ torch.randn(1, 1, 6)
    delta = torch.cat([one, torch.zeros(1, 12, 6)])
    assert components_for(energy_curve(delta)).tolist() == [1.0, 1.0]


def test_the_functional_rank_is_where_the_gap_is_all_but_closed() -> None:
    assert functional_rank([1, 2, 4, 8], [0.5, 0.07, 0.02, 0.01], blind_kl=1.0) == 4
    assert functional_rank([1, 2], [0.3, 0.3], blind_kl=0.3) == 1


def test_full_rank_leaves_no_gap_on_a_random_model(engine, picture) -> None:
    prefix, tail = engine.frame("what is it?")
    chunks = (prefix, engine.image_chunk(picture(1)), engine.image_chunk(picture(2)))
    case = Case(Workbench(engine), chunks, 2, tail)
    full = case.chunk.num_tokens
    sweep = probe_rank_sweep([case], ranks=(full, 1))
    assert sweep.ranks == (1, full)
    assert sweep.kl[1] < 1e-3 * sweep.kl[0] < sweep.blind_kl
    energy = probe_energy([case])
    assert set(energy) == {"k", "v"}
    assert all(layer[-1] == pytest.approx(1.0) for layer in energy["v"].curve)


def test_on_nano_gqa_a_few_directions_carry_the_binding() -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model()))
    items = TASKS["binding"].items(4)
    sweep = probe_rank_sweep(cases_of(bench, items), ranks=(1, 4, 16, 64))
    assert sweep.n == 4
    assert sweep.blind_kl > 1.0
    assert sweep.kl[2] < sweep.kl[1] < sweep.kl[0] < sweep.blind_kl
    assert sweep.eta[2] is not None
    assert sweep.eta[2] >= 0.97
    energy = probe_energy(cases_of(bench, items))
    for channel in energy.values():
        assert channel.n == 4
        assert channel.e90_share is not None
        assert 0 < channel.e90_share < 0.1
        assert channel.e90[0] is None, "the first layer's keys and values depend on the token alone"
        assert all(e is not None and e < 6 for e in channel.e90[1:])
