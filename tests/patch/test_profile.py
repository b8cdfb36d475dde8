"""Profiles: the bounds that they promise, their words, and what they leave as it was."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_fit import relative_error, steep_delta

from kamera.errors import ConfigError
from kamera.patch import KNEE, PatchProfile, form_patch, profile_of

KV_BYTES = 2 * 3 * 97 * 80 * 4


def make_deltas(factor=1.0):
    """Keys ten times as large as values, and the deeper the larger."""
    depth = torch.tensor([0.01, 0.1, 1.0])[:, None, None]
    k, v = (steep_delta(97, 80, num_layers=3, seed=s, decades=3.0) * depth for s in (0, 1))
    return {"k": 10 * factor * k, "v": factor * v}


@pytest.mark.parametrize("share", [0.01, 0.06, 0.3, 1.0])
@pytest.mark.parametrize("factors", ["float32", "bf16", "fp8", "int8"])
def test_a_share_of_the_bytes_is_kept_to_and_used(share, factors):
    profile = PatchProfile(share=share, factors=factors)
    patch = profile.form(make_deltas(), "A", KV_BYTES)
    assert patch.num_bytes <= share * KV_BYTES
    everything = PatchProfile(factors=factors).form(make_deltas(), "A", KV_BYTES).num_bytes
    one_direction = (97 + 80) * 4
    assert patch.num_bytes >= min(share * KV_BYTES - one_direction, everything)


def test_a_patch_says_all_its_bytes():
    for factors in ("float32", "bf16", "fp8", "int8"):
        patch = PatchProfile(share=0.2, factors=factors).form(make_deltas(), "A", KV_BYTES)
        tensors = [
            tensor
            for held in patch.factors.values()
            for tensor in (held.u_flat, held.vt_flat, held.scales)
            if tensor is not None
        ]
        assert patch.num_bytes == sum(t.numel() * t.element_size() for t in tensors)


def test_keys_do_not_outbid_values_by_their_size():
    small, large = make_deltas(), make_deltas()
    large["k"] = 1000 * large["k"]
    profile = PatchProfile(share=0.06)
    ranks = [
        {name: held.ranks for name, held in profile.form(d, "A", KV_BYTES).factors.items()}
        for d in (small, large)
    ]
    assert ranks[0] == ranks[1]


@pytest.mark.parametrize("energy", [0.5, 0.9, 0.999])
def test_an_energy_share_is_kept_of_every_layer_together(energy):
    deltas = make_deltas()
    patch = PatchProfile(energy=energy).form(deltas, "A", KV_BYTES)
    kept = [
        1 - ((wanted - got).square().sum() / wanted.square().sum()).item()
        for name, held in patch.factors.items()
        for wanted, got in zip(deltas[name], held.product(), strict=True)
    ]
    assert sum(kept) / len(kept) >= energy - 1e-5
    assert patch.num_bytes < form_patch(deltas, "A").num_bytes


@pytest.mark.parametrize(("depth", "ranks"), [(0.5, (0, 4, 4)), (0.3, (0, 0, 4)), (1.0, (4, 4, 4))])
def test_a_depth_leaves_the_shallow_layers_blind(depth, ranks):
    patch = PatchProfile(rank=4, depth=depth).form(make_deltas(), "A", KV_BYTES)
    assert [held.ranks for held in patch.factors.values()] == [ranks] * 2


def test_a_rank_alone_is_the_uniform_patch_of_old():
    deltas = make_deltas()
    patch = PatchProfile(rank=9).form(deltas, "A", KV_BYTES)
    assert PatchProfile(rank=9).plain_rank == 9
    for name, held in patch.factors.items():
        assert type(held).__name__ == "Factors"
        best = relative_error(deltas[name], form_patch(deltas, "A", 9).factors[name])
        assert relative_error(deltas[name], held) <= best * 1.05


@pytest.mark.parametrize(
    "profile",
    [
        PatchProfile(rank=9, share=0.1),
        PatchProfile(rank=9, factors="bf16"),
        PatchProfile(9, depth=0.5),
    ],
)
def test_a_rank_with_more_bounds_is_not_plain(profile):
    assert profile.plain_rank is None


def test_a_rank_bounds_a_share_as_well():
    patch = PatchProfile(rank=2, share=1.0).form(make_deltas(), "A", KV_BYTES)
    assert patch.rank == 2


def test_a_short_chunk_keeps_a_mean_rank_whatever_its_share():
    deltas = {name: delta[:, :7] for name, delta in make_deltas().items()}
    kv_bytes = 2 * 3 * 7 * 80 * 4
    lean = PatchProfile(share=0.06).form(deltas, "A", kv_bytes)
    floor = PatchProfile(share=0.06, least=4).form(deltas, "A", kv_bytes)
    assert lean.num_bytes <= 0.06 * kv_bytes
    assert sum(map(sum, (held.ranks for held in floor.factors.values()))) == 4 * 2 * 3


def test_settings_give_a_rank_or_words_or_the_default():
    assert profile_of(8, None) == PatchProfile(rank=8)
    assert profile_of(None, "energy 99%") == PatchProfile(energy=0.99)
    assert profile_of(None, None) == KNEE
    with pytest.raises(ConfigError, match="expected one of them"):
        profile_of(8, "rank 8")


def test_a_deficit_of_nothing_costs_nothing():
    nothing = {name: torch.zeros(3, 97, 80) for name in ("k", "v")}
    assert PatchProfile(share=0.1).form(nothing, "A", KV_BYTES).num_bytes == 0
    one_layer = make_deltas()
    one_layer["k"][0] = 0.0
    assert PatchProfile(share=0.1).form(one_layer, "A", KV_BYTES).factors["k"].ranks[0] == 0


@pytest.mark.parametrize(
    ("text", "profile", "written"),
    [
        ("rank 16", PatchProfile(rank=16), "rank 16, float32"),
        ("bytes 6%, int8", PatchProfile(share=0.06, factors="int8"), "bytes 6%, int8"),
        (" energy 99.5%,bf16 ", PatchProfile(energy=0.995, factors="bf16"), "energy 99.5%, bf16"),
        ("deep 50%, rank 8", PatchProfile(rank=8, depth=0.5), "rank 8, deep 50%, float32"),
        ("fp8", PatchProfile(factors="fp8"), "fp8"),
        (
            "least 4, bytes 6%, int8",
            PatchProfile(share=0.06, least=4, factors="int8"),
            "bytes 6%, least 4, int8",
        ),
        ("bytes 0.0000001%", PatchProfile(share=1e-9), "bytes 0.0000001%, float32"),
    ],
)
def test_words(text, profile, written):
    assert PatchProfile.parse(text) == profile
    assert str(profile) == written
    assert PatchProfile.parse(written) == profile


@given(st.floats(0.0, 1.0, exclude_min=True))
def test_the_words_of_any_share_give_the_same_share_back(share):
    profile = PatchProfile(share=share, energy=share, depth=share)
    assert PatchProfile.parse(str(profile)) == profile


@pytest.mark.parametrize(
    "text", ["", "rank", "rank -1", "6%", "bytes 6", "int4", "rank 1, rank 2", "int8, bf16"]
)
def test_words_that_are_not_known_are_refused(text):
    with pytest.raises(ConfigError, match="rank N, bytes X%"):
        PatchProfile.parse(text)


@pytest.mark.parametrize(
    "bounds",
    [
        {"rank": 0},
        {"least": 8},
        {"share": 0.0},
        {"share": 1.5},
        {"energy": -1.0},
        {"depth": 0.0},
        {"factors": "x"},
        {"share": float("nan")},
    ],
)
def test_bounds_that_can_not_be_are_refused(bounds):
    with pytest.raises(ConfigError, match="Invalid"):
        PatchProfile(**bounds)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "bounds",
    [
        {"share": "6"},
        {"share": True},
        {"depth": None},
        {"rank": 2.5},
        {"least": "4", "share": 0.06},
        {"factors": ["int8"]},
    ],
)
def test_bounds_of_another_type_are_refused(bounds):
    with pytest.raises(ConfigError, match=f"Invalid {next(iter(bounds))}.*expected"):
        PatchProfile(**bounds)
