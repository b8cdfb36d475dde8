"""The probes on a latent, on full heads and on deepstack features; and every result goes into JSON."""

import json
from dataclasses import asdict

import pytest

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.probes.basis_transfer import learn_basis, probe_basis_transfer
from kamera.lab.probes.case import cases_of
from kamera.lab.probes.depth_profile import probe_depth_profile
from kamera.lab.probes.energy import probe_energy
from kamera.lab.probes.head_sparsity import probe_head_sparsity
from kamera.lab.probes.landmark_keys import probe_landmark_keys
from kamera.lab.probes.mask_isolation import probe_mask_isolation
from kamera.lab.probes.rank_sweep import probe_rank_sweep
from kamera.lab.probes.selector_recall import probe_selector_recall
from kamera.lab.probes.single_layer import probe_single_layer
from kamera.lab.probes.state_merge import probe_state_merge
from kamera.lab.probes.token_diffuseness import probe_token_diffuseness
from kamera.lab.tasks import TASKS

CELLS = {"nano-mla": 8, "nano-mha": 32, "nano-deepstack": 16}


@pytest.mark.parametrize("name", CELLS)
def test_every_probe_reads_the_family(name: str) -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model(name)))
    case = next(cases_of(bench, TASKS["binding"].items(1)))
    merged = probe_state_merge(case)
    assert 0 < merged.worst <= 1
    isolated = probe_mask_isolation([case])
    assert isolated.loss_kl > 1.0 > 1e3 * isolated.control_kl
    sweep = probe_rank_sweep([case], ranks=(1, 16))
    assert sweep.kl[1] < sweep.kl[0] < sweep.blind_kl
    heads = probe_head_sparsity([case])
    assert heads.num_cells == CELLS[name]
    single = probe_single_layer([case])
    assert single.explained[1] < 0.5 < 0.9 < single.explained[-2]
    tokens = probe_token_diffuseness([case], shares=(0.05, 1.0), first=(8,))
    assert tokens.share_for_90 > 0.8
    transfer = probe_basis_transfer({"it": learn_basis([case], 4)}, {"it": [case]})
    assert transfer.energy["it"]["it"] == pytest.approx(transfer.energy["own"]["it"], rel=1e-4)
    channels = set(case.delta())
    depth, energy = probe_depth_profile([case]), probe_energy([case])
    assert set(depth) == set(energy) == channels
    found = [merged, isolated, sweep, heads, single, tokens, transfer, *depth.values()]
    found += [*energy.values(), probe_landmark_keys([case]), probe_selector_recall([case])]
    for result in found:
        assert json.loads(json.dumps(asdict(result)))
