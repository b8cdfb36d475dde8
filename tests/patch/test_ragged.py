"""Ragged factors: a rank for each layer, against uniform factors and against zeros."""

import jaxtyping
import pytest
import torch

from kamera.channels import ChunkKV
from kamera.errors import ConfigError
from kamera.patch import (
    Factors,
    Patch,
    RaggedFactors,
    apply,
    decode_patch,
    encode_patch,
    form_patch,
)
from kamera.rope import RopeSpec

SPEC = RopeSpec(tuple(torch.logspace(0, -4, 8).tolist()), (0,) * 8, num_axes=1, head_dim=16)
RANKS = {"k": (0, 3, 7), "v": (5, 0, 1)}


@pytest.fixture
def unchecked_shapes():
    """Switch the tests' own shape checks off, to see the errors that a user gets."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def make_patch(rank=8, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    deltas = {name: torch.randn(3, 13, 32, generator=generator) for name in ("k", "v")}
    return form_patch(deltas, "A", rank, dtype=dtype)


def zeroed(patch, ranks):
    """The uniform patch whose directions beyond each layer's rank are zeros: the plain reference."""
    factors = {}
    for name, held in patch.factors.items():
        u = held.u.clone()
        for layer, rank in enumerate(ranks[name]):
            u[layer, :, rank:] = 0.0
        factors[name] = Factors(u, held.vt)
    return Patch(factors, patch.antecedent, patch.kind)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_ragged_patch_is_the_uniform_one_with_zeros(dtype):
    patch = make_patch(dtype=dtype)
    ragged, wanted = patch.with_ranks(RANKS), zeroed(patch, RANKS)
    canonical = ChunkKV({name: torch.randn(3, 13, 2, 16) for name in RANKS})
    positions = torch.arange(13)[:, None] + 99
    got = apply(canonical, ragged, positions, SPEC)
    reference = apply(canonical, wanted, positions, SPEC)
    for name in RANKS:
        torch.testing.assert_close(
            ragged.factors[name].product(), wanted.factors[name].product(), rtol=0, atol=2e-6
        )
        torch.testing.assert_close(got.tensors[name], reference.tensors[name], rtol=0, atol=4e-6)


def test_a_layer_of_rank_0_stays_blind_to_the_bit():
    canonical = ChunkKV({name: torch.randn(3, 13, 2, 16) for name in RANKS})
    positions = torch.arange(13)[:, None] + 5
    got = apply(canonical, make_patch().with_ranks(RANKS), positions, SPEC)
    blind = apply(canonical, None, positions, SPEC)
    assert torch.equal(got.tensors["k"][0], blind.tensors["k"][0])
    assert torch.equal(got.tensors["v"][1], blind.tensors["v"][1])


def test_bytes_are_those_of_the_directions_that_are_kept():
    patch = make_patch(dtype=torch.bfloat16).with_ranks(RANKS)
    assert patch.num_bytes == 2 * (13 + 32) * (sum(RANKS["k"]) + sum(RANKS["v"]))
    assert patch.rank == 7
    nothing = patch.with_ranks({"k": (0, 0, 0), "v": (0, 0, 0)})
    assert (nothing.num_bytes, nothing.rank) == (0, 0)


def test_uniform_factors_are_flat_without_a_copy():
    factors = make_patch().factors["k"]
    flat = factors.flat()
    assert flat.u_flat.data_ptr() == factors.u.data_ptr()
    assert flat.vt_flat.data_ptr() == factors.vt.data_ptr()
    assert flat.ranks == (8, 8, 8)
    assert torch.equal(flat.product(), factors.product())
    assert torch.equal(factors.truncate(3).flat().product(), factors.truncate(3).product())


def test_a_truncated_ragged_patch_keeps_the_first_directions():
    patch = make_patch()
    cut = patch.with_ranks(RANKS).truncate(3)
    wanted = patch.with_ranks({"k": (0, 3, 3), "v": (3, 0, 1)})
    assert patch.with_ranks(RANKS).truncate(None).num_bytes == patch.with_ranks(RANKS).num_bytes
    for name in RANKS:
        assert cut.factors[name].ranks == wanted.factors[name].ranks
        assert torch.equal(cut.factors[name].u_flat, wanted.factors[name].u_flat)
        assert torch.equal(cut.factors[name].vt_flat, wanted.factors[name].vt_flat)
    with pytest.raises(ConfigError, match="Invalid rank"):
        patch.with_ranks(RANKS).truncate(0)


@pytest.mark.parametrize("ragged", [False, True])
def test_a_patch_survives_its_encoding(ragged):
    patch = make_patch().with_ranks(RANKS) if ragged else make_patch()
    tensors, attributes = encode_patch(patch)
    assert ("layout" in attributes) == ragged
    again = decode_patch(tensors, attributes, "exact")
    assert again.antecedent == patch.antecedent
    for name in RANKS:
        assert type(again.factors[name]) is type(patch.factors[name])
        assert torch.equal(again.factors[name].product(), patch.factors[name].product())


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k.ragged": [13, 32, 0, 3, 6]}, "Invalid shape of u_flat"),
        ({"k.ragged": [13, 32, 0, -3, 13]}, "rank >= 0"),
        ({"k.ragged": "13"}, "expected \\[T, F, M_1"),
        ({"k.ragged": [13, 32, True, 3, 7]}, "expected \\[T, F, M_1"),
        ({"antecedent": ""}, "antecedent"),
        ({"k.ragged": None}, r"expected u \[L, T, M\]"),
    ],
)
def test_a_wrong_encoding_is_refused(change, message):
    tensors, attributes = encode_patch(make_patch().with_ranks(RANKS))
    with pytest.raises(ConfigError, match=message):
        decode_patch(tensors, {**attributes, **change}, "exact")


def test_a_missing_tensor_is_refused():
    tensors, attributes = encode_patch(make_patch().with_ranks(RANKS))
    del tensors["v.u"]
    with pytest.raises(ConfigError, match=r"no tensor 'v\.u'"):
        decode_patch(tensors, attributes, "exact")


@pytest.mark.usefixtures("unchecked_shapes")
def test_ranks_and_buffers_that_do_not_fit_are_refused():
    patch = make_patch()
    with pytest.raises(ConfigError, match="Invalid ranks: expected 3 of them"):
        patch.with_ranks({"k": (1, 2), "v": (1, 2, 3)})
    with pytest.raises(ConfigError, match="each from 0 to the layer's own"):
        patch.with_ranks({"k": (1, 2, 9), "v": (1, 2, 3)})
    with pytest.raises(ConfigError, match="Invalid ranks: expected those of"):
        patch.with_ranks({"k": (1, 2, 3)})
    with pytest.raises(ConfigError, match="without scales"):
        RaggedFactors(torch.zeros(5).char(), torch.zeros(7).char(), (1, 0), 5, 7)
    with pytest.raises(ConfigError, match=r"shape of scales: expected \[1\]"):
        RaggedFactors(torch.zeros(5).char(), torch.zeros(7).char(), (1, 0), 5, 7, torch.ones(2))
    with pytest.raises(ConfigError, match="one dtype"):
        RaggedFactors(torch.zeros(5), torch.zeros(7).bfloat16(), (1, 0), 5, 7)
    with pytest.raises(ConfigError, match="contiguous"):
        RaggedFactors(torch.zeros(10)[::2], torch.zeros(7), (1, 0), 5, 7)
