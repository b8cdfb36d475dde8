"""Tokens and heads: how few hold the deficit's energy, and what an oracle's choice of tokens gives back."""

import pytest
import torch

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.metrics import kl
from kamera.lab.probes.case import Case, cases_of
from kamera.lab.probes.head_sparsity import cell_energy, probe_head_sparsity
from kamera.lab.probes.token_diffuseness import probe_token_diffuseness, share_for, token_norms, top
from kamera.lab.tasks import TASKS


@pytest.fixture
def case(engine, picture) -> Case:
    prefix, tail = engine.frame("what is it?")
    chunks = (prefix, *(engine.image_chunk(picture(seed)) for seed in (1, 2, 3)))
    return Case(Workbench(engine), chunks, 2, tail)


def all_of(case: Case) -> float:
    """η of B exactly as re-prefill made it."""
    placed = case.bench.conditioned(case.chunks, case.target)
    reference = case.reference()
    return 1.0 - kl(case.with_kv(placed), reference) / kl(case.with_patch(None), reference)


def test_the_fewest_cells_are_counted() -> None:
    assert share_for(torch.tensor([0.0, 8.0, 1.0, 1.0])) == 0.5
    assert share_for(torch.ones(10), 0.85) == 0.9
    assert share_for(torch.zeros(4)) == 0.0


def test_the_top_share_takes_the_highest_and_rounds_up() -> None:
    scores = torch.tensor([1.0, 5.0, 3.0, 5.0, 0.0])
    assert top(scores, 0.2).nonzero().flatten().tolist() == [1]
    assert top(scores, 0.41).nonzero().flatten().tolist() == [1, 2, 3]
    assert bool(top(scores, 1.0).all())


def test_all_tokens_close_the_gap_on_a_random_model(case) -> None:
    found = probe_token_diffuseness([case], shares=(0.25, 0.5, 1.0), first=(2,))
    assert found.energy[0] < found.energy[1] < found.energy[2]
    assert found.energy[2] == pytest.approx(1.0)
    assert found.oracle_eta[2] == all_of(case)
    assert found.oracle_eta[0] is not None
    assert found.oracle_eta[0] < 0.9 < 0.999 < all_of(case)
    assert found.first_eta[0] != found.oracle_eta[0]
    assert 0 < found.share_for_90 <= 1


def test_cells_sum_to_the_deficits_energy(case) -> None:
    cells = cell_energy(case)
    whole = sum(float(delta.square().sum()) for delta in case.delta().values())
    assert cells.shape == (8, 2)
    assert float(cells.sum()) == pytest.approx(whole, rel=1e-5)
    found = probe_head_sparsity([case])
    assert found.num_cells == 16
    assert 0.25 <= found.top_quarter < 1
    assert 0 < found.share_for_90 <= 0.9 + 1 / 16


def test_on_nano_gqa() -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model()))
    items = TASKS["binding"].items(3)
    found = probe_token_diffuseness(cases_of(bench, items))
    assert found.n == 3
    assert found.oracle_eta[-1] is not None
    assert found.oracle_eta[0] is not None
    assert found.oracle_eta[0] < 0.9 < 0.999 < found.oracle_eta[-1]
    assert found.share_for_90 > 0.8, "Δ lies on almost every token"
    assert list(found.energy) == sorted(found.energy)
    heads = probe_head_sparsity(cases_of(bench, items))
    assert heads.n == 3
    assert heads.share_for_90 > 0.25, "a quarter of the heads isn't enough"
    for case in cases_of(bench, items[:1]):
        assert len(token_norms(case)) == case.chunk.num_tokens
