"""Fitting: the Gram route against the full SVD, Eckart-Young, and the edges of rank and shape."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kamera.errors import ConfigError
from kamera.patch import fit_gram, fit_svd, form_patch

SHAPES = [(97, 62), (62, 97), (31, 31), (1, 48), (48, 1)]


def steep_delta(num_tokens, num_features, num_layers=2, seed=0, decades=6.0):
    """A Δ whose singular values fall over many decades, as real ones do."""
    generator = torch.Generator().manual_seed(seed)
    rank = min(num_tokens, num_features)
    left = torch.randn(num_layers, num_tokens, rank, generator=generator, dtype=torch.float64)
    right = torch.randn(num_layers, num_features, rank, generator=generator, dtype=torch.float64)
    left, right = (torch.linalg.qr(basis).Q for basis in (left, right))
    sigma = torch.logspace(0, -decades, rank, dtype=torch.float64)
    return ((left * sigma) @ right.mT).float()


def relative_error(delta, factors):
    return ((factors.product(torch.float64) - delta).norm() / delta.norm()).item()


@pytest.mark.parametrize("fit", [fit_svd, fit_gram])
@pytest.mark.parametrize("shape", SHAPES)
def test_full_rank_gives_back_the_deficit(fit, shape):
    delta = steep_delta(*shape)
    factors = fit(delta)
    assert factors.rank == min(shape)
    assert (factors.product() - delta).abs().max() <= 1e-6 * delta.abs().max()


@pytest.mark.parametrize("decades", [1.0, 6.0, 12.0])
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_gram_and_svd_reconstruct_equally_well_at_every_rank(shape, decades):
    delta = steep_delta(*shape, decades=decades)
    for rank in (1, 2, 5, 8, 16, 30):
        by_svd = relative_error(delta, fit_svd(delta, rank))
        by_gram = relative_error(delta, fit_gram(delta, rank))
        assert by_gram == pytest.approx(by_svd, rel=1e-3, abs=2e-7)


@pytest.mark.parametrize("fit", [fit_svd, fit_gram])
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_the_error_is_the_tail_of_the_singular_values(fit, shape):
    delta = steep_delta(*shape, decades=3.0)
    sigma = torch.linalg.svdvals(delta.double())
    for rank in (1, 7, 30):
        tail = (sigma[:, rank:].square().sum() / sigma.square().sum()).sqrt().item()
        assert relative_error(delta, fit(delta, rank)) == pytest.approx(tail, rel=1e-3, abs=2e-7)


@pytest.mark.parametrize("fit", [fit_svd, fit_gram])
@pytest.mark.parametrize("shape", SHAPES[:2])
def test_rows_of_vt_are_unit_and_u_carries_the_singular_values(fit, shape):
    delta = steep_delta(*shape, decades=2.0)
    factors = fit(delta, 12)
    gram = factors.vt.double() @ factors.vt.double().mT
    torch.testing.assert_close(gram, torch.eye(12).double().expand_as(gram), rtol=0, atol=1e-5)
    sigma = torch.linalg.svdvals(delta.double())[:, :12]
    torch.testing.assert_close(factors.u.double().norm(dim=1), sigma, rtol=1e-5, atol=0)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 4), st.integers(0, 2**31))
def test_a_deficit_of_low_rank_is_recovered_at_its_rank(num_tokens, num_features, rank, seed):
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(2, num_tokens, rank, generator=generator)
    delta = u @ torch.randn(2, rank, num_features, generator=generator)
    for fit in (fit_svd, fit_gram):
        assert relative_error(delta, fit(delta, rank)) <= 1e-6


@pytest.mark.parametrize("fit", [fit_svd, fit_gram])
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e30])
def test_zero_tiny_and_huge_deficits_stay_finite(fit, scale):
    delta = steep_delta(9, 7) * scale
    factors = fit(delta)
    assert torch.isfinite(factors.u).all()
    assert torch.isfinite(factors.vt).all()
    assert (factors.product() - delta).abs().max() <= 1e-6 * delta.abs().max()


@pytest.mark.parametrize("fit", [fit_svd, fit_gram])
def test_rank_is_clipped_to_the_smaller_side(fit):
    assert fit(steep_delta(5, 9), 64).rank == 5
    assert fit(steep_delta(9, 5), 64).rank == 5


@pytest.mark.parametrize("fit", [fit_svd, fit_gram])
def test_a_bad_rank_or_deficit_is_refused(fit):
    delta = steep_delta(5, 9)
    with pytest.raises(ConfigError, match="rank: expected >= 1, or None for full rank, got 0"):
        fit(delta, 0)
    with pytest.raises(ConfigError, match="got inf or nan"):
        fit(delta.index_fill(1, torch.tensor([2]), float("nan")), 2)
    with pytest.raises(ConfigError, match=r"none zero, got \[2, 0, 9\]"):
        fit(delta[:, :0], 2)


@pytest.mark.parametrize("shape", [(2, 9, 24), (2, 31, 8)])
def test_a_truncated_patch_is_the_one_fitted_at_that_rank(shape):
    delta = {"k": torch.randn(shape), "v": torch.randn(shape)}
    whole = form_patch(delta, "a")
    for rank in (1, 3, None):
        cut, fitted = whole.truncate(rank), form_patch(delta, "a", rank)
        assert cut.rank == fitted.rank
        for name, factors in cut.factors.items():
            assert torch.allclose(factors.product(), fitted.factors[name].product(), atol=1e-6)
    with pytest.raises(ConfigError, match="rank"):
        whole.truncate(0)


def test_a_formed_patch_names_its_antecedent_and_counts_its_bytes():
    deltas = {"k": steep_delta(9, 12), "v": steep_delta(9, 12, seed=1)}
    patch = form_patch(deltas, "key-of-A", rank=4)
    half = form_patch(deltas, "key-of-A", rank=4, kind="orbit", dtype=torch.bfloat16)
    assert (patch.antecedent, patch.kind, patch.rank) == ("key-of-A", "exact", 4)
    assert patch.num_bytes == 2 * 2 * 4 * (9 + 12) * 4
    assert (half.kind, half.num_bytes) == ("orbit", patch.num_bytes // 2)
    assert relative_error(deltas["k"], half.factors["k"]) < 2**-7 + relative_error(
        deltas["k"], patch.factors["k"]
    )
