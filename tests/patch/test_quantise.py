"""Factors in one byte a number: their error against the formats' own steps, and their bytes."""

import pytest
import torch

from kamera.channels import ChunkKV
from kamera.errors import ConfigError
from kamera.patch import apply, decode_patch, encode_patch, form_patch
from kamera.patch.quantise import quantised
from kamera.rope import RopeSpec

SPEC = RopeSpec(tuple(torch.logspace(0, -4, 8).tolist()), (0,) * 8, num_axes=1, head_dim=16)
DTYPES = [torch.float8_e4m3fn, torch.int8]
RANKS = {"k": (0, 3, 7), "v": (5, 0, 1)}


def make_patch(scale=1.0):
    generator = torch.Generator().manual_seed(0)
    deltas = {name: scale * torch.randn(3, 13, 32, generator=generator) for name in ("k", "v")}
    return form_patch(deltas, "A", 8).with_ranks(RANKS)


def step(values, dtype, dim):
    """Half of the distance to the next number of the format, of each value."""
    largest = values.abs().amax(dim=dim, keepdim=True)
    if dtype is torch.int8:
        return (largest / 127 / 2).expand_as(values)
    # 4 significant bits; below 2^-6 of 448 the format's numbers are 2^-9 apart.
    return torch.maximum(values.abs() * 2**-4, largest / 448 * 2**-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e10])
def test_each_factor_is_within_half_a_step_of_its_format(dtype, scale):
    patch = make_patch(scale)
    for name, held in quantised(patch, dtype).factors.items():
        for (u, vt), (exact_u, exact_vt) in zip(
            held.layers(), patch.factors[name].layers(), strict=True
        ):
            if not u.numel():
                continue
            # One scale a direction: columns of u come back stretched, rows of vt shrunk as much.
            stretch = exact_u.abs().amax(dim=0) / u.abs().amax(dim=0)
            back_u, back_vt = u * stretch, vt / stretch[:, None]
            tiny = 1 + 1e-5
            half = step(exact_vt, dtype, 1)
            rounded = half + 2**-8 * (exact_vt.abs() + half)  # vt times its scale is a bf16 number
            assert ((back_u - exact_u).abs() <= step(exact_u, dtype, 0) * tiny).all()
            assert ((back_vt - exact_vt).abs() <= rounded * tiny).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("asked", [None, torch.float32, torch.float16, torch.float64])
def test_values_are_those_of_bf16_whatever_they_are_asked_for_in(dtype, asked):
    for held in quantised(make_patch(), dtype).factors.values():
        flat, bf16 = held.flat(asked), held.flat(torch.bfloat16)
        assert flat.u_flat.dtype == (asked or torch.bfloat16)
        wanted = asked or torch.bfloat16
        assert torch.equal(flat.u_flat, bf16.u_flat.to(wanted))
        assert torch.equal(flat.vt_flat, bf16.vt_flat.to(wanted))
        assert torch.equal(bf16.u_flat.float(), held.u_flat.float()), "u is exact in bf16"


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_are_one_for_a_number_and_four_for_a_direction(dtype):
    total = sum(map(sum, RANKS.values()))
    assert quantised(make_patch(), dtype).num_bytes == total * (13 + 32 + 4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_reference_applies_what_they_stand_for(dtype):
    patch = quantised(make_patch(), dtype)
    plain = patch.to(torch.float32)
    assert plain.factors["k"].scales is None
    canonical = ChunkKV({name: torch.randn(3, 13, 2, 16) for name in RANKS})
    positions = torch.arange(13)[:, None]
    got, wanted = (apply(canonical, p, positions, SPEC) for p in (patch, plain))
    assert all(torch.equal(got.tensors[name], wanted.tensors[name]) for name in RANKS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_they_survive_encoding_and_truncation(dtype):
    patch = quantised(make_patch(), dtype)
    tensors, attributes = encode_patch(patch)
    again = decode_patch(tensors, attributes, "exact")
    cut = patch.truncate(2)
    for name, held in patch.factors.items():
        assert torch.equal(again.factors[name].product(), held.product())
        for (u, vt), (whole_u, whole_vt) in zip(
            cut.factors[name].layers(), held.layers(), strict=True
        ):
            assert torch.equal(u, whole_u[:, :2])
            assert torch.equal(vt, whole_vt[:2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_stay_zeros(dtype):
    nothing = form_patch({name: torch.zeros(3, 13, 32) for name in RANKS}, "A", 4)
    for held in quantised(nothing, dtype).factors.values():
        assert (held.product() == 0).all()


def test_another_dtype_is_refused():
    with pytest.raises(ConfigError, match="dtype of factors"):
        quantised(make_patch(), torch.bfloat16)
