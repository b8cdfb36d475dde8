"""The benchmark of bytes against η: its arithmetic, its ceiling and its texts."""

import re
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bench_rank_bytes as bench
from antecedent_text import antecedent_and_text
from kamera.patch import PatchProfile

DELTAS = {
    name: torch.randn(3, 60, 40, generator=torch.Generator().manual_seed(seed))
    * torch.arange(1, 41).float().reciprocal()
    for seed, name in enumerate(("k", "v"))
}
KV_BYTES = 2 * 3 * 60 * 40 * 2


def test_the_arithmetic_at_the_7b_is_that_of_ranks_and_bytes() -> None:
    shares = {row["profile"]: row["share_of_kv"] for row in bench.arithmetic()}
    # m (T + F) numbers of the T F that a layer and channel has: 1536 m / 524288.
    assert shares["rank 16, float32"] == pytest.approx(16 * 1536 * 4 / (1024 * 512 * 2))
    assert shares["rank 64, bf16"] == pytest.approx(64 * 1536 / (1024 * 512))
    assert shares[str(bench.KNEE)] == pytest.approx(0.06)


def test_no_profile_keeps_more_energy_than_the_ceiling() -> None:
    best = bench.best_energies(DELTAS, KV_BYTES)
    for share, energy in best.items():
        patch, num_bytes = bench.kept(PatchProfile(share=share, factors="int8"))(DELTAS, KV_BYTES)
        assert num_bytes <= share * KV_BYTES
        assert bench.energy_kept(DELTAS, patch) <= energy + 1e-6
    assert list(best.values()) == sorted(best.values())


def test_a_basis_of_all_directions_gives_the_deficit_back_to_a_step_of_int8() -> None:
    basis = {name: torch.eye(40).expand(3, 40, 40) for name in DELTAS}
    patch, num_bytes = bench.shared(basis, 40)(DELTAS, KV_BYTES)
    for name, delta in DELTAS.items():
        step = delta.abs().amax(dim=1, keepdim=True) / 127
        assert ((patch.factors[name].product() - delta).abs() <= step / 2 * (1 + 1e-4)).all()
    assert num_bytes == 2 * 3 * 40 * (60 + 4)


def test_the_second_text_names_nobody_and_is_the_same_each_time() -> None:
    before, text = antecedent_and_text(5, 12)
    assert (before, text) == antecedent_and_text(5, 12)
    owners = re.findall(r"belongs to (\w+)", before)
    assert len(set(owners)) == 6
    assert not set(owners) & set(re.findall(r"\w+", text))
    assert set(re.findall(r"The (\w+) belongs", before)) >= set(
        re.findall(r"the (\w+) was given", text)
    )
    assert len(text) > len(antecedent_and_text(5, 3)[1])
