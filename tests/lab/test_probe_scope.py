"""Basis transfer across items and tasks, and where the effect lives: random model and nano-gqa."""

import pytest
import torch

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.probes.basis_transfer import OWN, learn_basis, probe_basis_transfer, project
from kamera.lab.probes.case import Case, cases_of, text_case
from kamera.lab.probes.modality_scope import probe_modality_scope
from kamera.lab.tasks import TASKS


@pytest.fixture
def cases(engine, picture) -> list[Case]:
    bench = Workbench(engine)
    prefix, tail = engine.frame("what is it?")
    return [
        Case(bench, (prefix, *(engine.image_chunk(picture(s)) for s in (seed, seed + 1))), 2, tail)
        for seed in (1, 11)
    ]


def test_all_directions_give_the_whole_deficit(cases) -> None:
    basis = learn_basis(cases[:1], 64)
    delta = cases[1].delta()
    for name, factors in project(delta, basis).factors.items():
        assert factors.vt.shape == (8, 64, 64)
        # An orthonormal float32 basis of F directions: each product rounds F sums, twice.
        bound = 2 * 64 * torch.finfo(torch.float32).eps * delta[name].norm(dim=-1).max()
        assert (factors.product() - delta[name]).abs().max() <= bound


def test_an_items_own_directions_hold_the_most_energy(cases) -> None:
    basis = {"first": learn_basis(cases[:1], 4)}
    found = probe_basis_transfer(basis, {"same": cases[:1], "other": cases[1:]})
    assert found.rank == 4
    assert found.n == {"same": 1, "other": 1}
    assert found.energy["first"]["same"] == pytest.approx(found.energy[OWN]["same"], rel=1e-4)
    assert found.energy["first"]["other"] < found.energy[OWN]["other"] < 1


def test_on_nano_gqa_a_basis_serves_other_items_and_tasks_differ() -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model()))
    learned = {
        name: learn_basis(cases_of(bench, TASKS[name].items(4, split="train")), 8)
        for name in ("binding", "shell_game")
    }
    tested = {name: cases_of(bench, TASKS[name].items(2)) for name in learned}
    found = probe_basis_transfer(learned, tested)
    assert found.n == {"binding": 2, "shell_game": 2}
    for name in learned:
        assert found.energy[OWN][name] > found.energy[name][name] > 0.7
        etas = found.eta[name][name]
        assert etas is not None
        assert etas > 0.9


def test_a_text_has_a_scope_without_media_on_a_random_model(engine) -> None:
    bench = Workbench(engine)
    texts = [
        text_case(bench, "red blue", "which digit", "where is the ball?", "left"),
        text_case(bench, "two red", "blue ball", "where is the ball?"),
    ]
    found = probe_modality_scope({"text": texts}, rank=16)["text"]
    assert found.kind == "text"
    assert found.n == 2
    assert found.accuracy is not None
    assert found.accuracy["re-prefill"] in (0.0, 1.0)
    assert found.blind_kl > 1e3 * found.patch_kl, "short texts: rank 16 is full rank"


def test_on_nano_gqa_the_gap_is_where_the_answer_is_bound() -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model()))
    scopes = {name: cases_of(bench, TASKS[name].items(6)) for name in ("binding", "readout")}
    found = probe_modality_scope(scopes)
    binding, readout = found["binding"], found["readout"]
    assert binding.kind == readout.kind == "image"
    assert binding.accuracy is not None
    assert binding.accuracy["blind"] < 0.5 < binding.accuracy["re-prefill"]
    assert binding.flip_recover == 1.0
    assert binding.blind_kl > 10 * readout.blind_kl
    assert readout.flipped == 0.0
