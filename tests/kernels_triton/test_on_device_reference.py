"""The Triton kernel against float64: every layout, dtype and rank, and what must keep its bytes."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from triton_cases import (
    FAMILIES,
    GQA,
    LAYERED,
    PARTIAL,
    Case,
    bound,
    contiguous,
    poisoned,
    raw,
    spec,
    truth,
)
from triton_device import DEVICE

from kamera.channels import ChunkKV
from kamera.errors import ConfigError, UnsupportedRopeError
from kamera.kernels import Placement
from kamera.kernels.triton_apply import TritonKernel

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
KERNEL = TritonKernel()
numpy_warns = pytest.mark.filterwarnings(
    "ignore:(invalid value|overflow) encountered:RuntimeWarning"
)
"""The interpreter's numpy speaks of arithmetic with infinities and NaN; a GPU doesn't."""


def written(placement: Placement, dtype: torch.dtype) -> dict[str, Tensor]:
    out = contiguous(placement, dtype)
    assert KERNEL.takes(placement, out)
    KERNEL.write(placement, out)
    return out


def assert_within_the_bound(placement: Placement, dtype: torch.dtype) -> None:
    exact = truth(placement)
    for name, got in written(placement, dtype).items():
        error = (got.double() - exact[name]).abs()
        over = error - bound(placement, name, exact[name], dtype)
        assert over.max() <= 0, f"{name}: {over.max()} above the bound, error {error.max()}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factors", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_number_is_rounded_once(
    family: str, dtype: torch.dtype, factors: torch.dtype
) -> None:
    case = replace(FAMILIES[family], dtype=dtype, factors=factors)
    assert_within_the_bound(case.placement(), dtype)


@pytest.mark.parametrize("family", FAMILIES)
def test_relocation_alone_is_rounded_once(family: str) -> None:
    ranks = None if family != "layered" else (0, 0, 0, 0)
    assert_within_the_bound(replace(FAMILIES[family], ranks=ranks).placement(), torch.bfloat16)


@pytest.mark.parametrize("factors", DTYPES)
def test_each_layer_has_a_rank_of_its_own(factors: torch.dtype) -> None:
    case = replace(GQA, ranks=(0, 1, 8, 17, 64, 0, 33, 70), factors=factors)
    assert_within_the_bound(case.placement(), torch.bfloat16)


def test_ragged_ranks_and_ropes_by_layer_go_together() -> None:
    case = replace(LAYERED, ranks=(5, 0, 16, 3), factors=torch.float32, dtype=torch.float32)
    assert_within_the_bound(case.placement(), torch.float32)


@pytest.mark.parametrize("num_tokens", [1, 31, 32, 33, 97])
def test_the_last_tile_need_not_be_full(num_tokens: int) -> None:
    assert_within_the_bound(replace(GQA, num_tokens=num_tokens).placement(), torch.bfloat16)


@pytest.mark.parametrize("stored", DTYPES)
@pytest.mark.parametrize("cached", DTYPES)
def test_the_cache_may_have_another_dtype(stored: torch.dtype, cached: torch.dtype) -> None:
    assert_within_the_bound(replace(PARTIAL, dtype=stored).placement(), cached)


@pytest.mark.parametrize("family", FAMILIES)
def test_skipped_tokens_leave_the_others_as_they_were(family: str) -> None:
    whole = written(FAMILIES[family].placement(), torch.bfloat16)
    rest = written(replace(FAMILIES[family], skip=9).placement(), torch.bfloat16)
    for name in whole:
        assert raw(rest[name]).equal(raw(whole[name][:, 9:].contiguous()))


def test_nothing_is_written_when_all_is_skipped() -> None:
    assert written(replace(GQA, skip=GQA.num_tokens).placement(), torch.bfloat16)["k"].numel() == 0


def any_bytes(placement: Placement) -> Placement:
    """The placement with every bit pattern in its canonical: NaN with payloads, −0, subnormals."""
    generator = torch.Generator().manual_seed(1)
    kv = {}
    for name, tensor in placement.canonical.tensors.items():
        bits = torch.randint(-(2**15), 2**15, (*tensor.shape, 4), generator=generator)
        bits[..., ::4, :] = -(2**15)  # −0
        bits[..., 1::4, :] |= 0x7F81  # NaN, in either dtype
        kv[name] = bits.to(torch.int16).view(tensor.dtype)[..., 0].contiguous().to(DEVICE)
    return replace(placement, canonical=ChunkKV(kv))


@numpy_warns
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_channel_that_neither_rotates_nor_is_patched_keeps_its_bytes(dtype: torch.dtype) -> None:
    placement = any_bytes(replace(GQA, ranks=None, dtype=dtype).placement())
    assert raw(written(placement, dtype)["v"]).equal(raw(placement.canonical.tensors["v"]))


@numpy_warns
def test_a_layer_of_rank_0_beside_patched_ones_keeps_its_bytes() -> None:
    placement = any_bytes(replace(GQA, ranks=(8, 0)).placement())
    got = written(placement, torch.bfloat16)["v"]
    assert raw(got[1]).equal(raw(placement.canonical.tensors["v"][1]))


@numpy_warns
def test_dims_behind_the_rotary_ones_keep_their_bytes() -> None:
    placement = any_bytes(replace(PARTIAL, ranks=None).placement())
    got, stored = written(placement, torch.bfloat16)["k"], placement.canonical.tensors["k"]
    assert raw(got[..., 20:].contiguous()).equal(raw(stored[..., 20:].contiguous()))


@numpy_warns
def test_a_token_at_the_origin_keeps_its_bytes() -> None:
    placement = any_bytes(replace(GQA, ranks=None).placement())
    placement.positions[5] = 0
    got, stored = written(placement, torch.bfloat16)["k"], placement.canonical.tensors["k"]
    assert raw(got[:, 5]).equal(raw(stored[:, 5]))


@pytest.mark.parametrize("ranks", [None, (8, 0)])
def test_signs_of_zeros_survive_a_wider_cache_at_the_origin(ranks: tuple[int, int] | None) -> None:
    placement = replace(GQA, ranks=ranks).placement()
    placement.positions.zero_()
    for tensor in placement.canonical.tensors.values():
        tensor[..., ::3] = -0.0
    for name, got in written(placement, torch.float32).items():
        assert raw(got[1]).equal(raw(placement.canonical.tensors[name][1].float()))


def test_any_strides_of_the_stored_and_the_written() -> None:
    """A chunk cut out of a longer one goes into head-major memory, as an engine's window has it."""
    placement = GQA.placement()
    plain = written(placement, torch.bfloat16)
    out, windows, strided = {}, {}, {}
    for name, tensor in placement.canonical.tensors.items():
        num_layers, num_tokens, heads, dim = tensor.shape
        longer = poisoned((num_layers, heads, num_tokens + 7, dim), tensor.dtype)
        longer[:, :, 3 : 3 + num_tokens] = tensor.transpose(1, 2)
        strided[name] = longer.transpose(1, 2)[:, 3 : 3 + num_tokens]
        windows[name] = poisoned((num_layers, heads, num_tokens + 5, dim), tensor.dtype)
        out[name] = windows[name].transpose(1, 2)[:, 2 : 2 + num_tokens]
    KERNEL.write(replace(placement, canonical=ChunkKV(strided)), out)
    for name, window in windows.items():
        assert raw(out[name].contiguous()).equal(raw(plain[name]))
        outside = torch.cat([window[:, :, :2], window[:, :, -3:]], dim=2)
        assert raw(outside).equal(raw(poisoned(outside.shape, outside.dtype)))


def test_only_the_named_channels_are_written() -> None:
    placement = GQA.placement()
    out = contiguous(placement, torch.bfloat16)
    KERNEL.write(placement, {"v": out["v"]})
    assert raw(out["k"]).equal(raw(poisoned(out["k"].shape, torch.bfloat16)))
    assert raw(out["v"]).equal(raw(written(placement, torch.bfloat16)["v"]))


@settings(max_examples=8, deadline=None, database=None)
@given(
    st.sampled_from(sorted(FAMILIES)),
    st.lists(st.integers(0, 40), min_size=4, max_size=4),
    st.integers(1, 70),
    st.sampled_from(DTYPES),
    st.integers(0, 99),
)
def test_any_case_is_within_the_bound(
    family: str, ranks: list[int], num_tokens: int, dtype: torch.dtype, seed: int
) -> None:
    case = replace(FAMILIES[family], ranks=ranks, num_tokens=num_tokens, dtype=dtype, seed=seed)
    assert_within_the_bound(case.placement(), dtype)


def test_float64_is_left_to_the_reference() -> None:
    placement = GQA.placement()
    wide = {name: tensor.double() for name, tensor in placement.canonical.tensors.items()}
    out = contiguous(placement, torch.float32)
    assert not KERNEL.takes(replace(placement, canonical=ChunkKV(wide)), out)
    assert not KERNEL.takes(placement, {**out, "k": out["k"].double()})


def test_a_head_size_that_isnt_the_ropes_is_refused() -> None:
    placement = Case({"k": (2, 32), "v": (2, 32)}, spec(64)).placement()
    with pytest.raises(ConfigError, match=r"D=64\] as the rope's, got \[2, 37, 2, 32\]"):
        KERNEL.write(placement, contiguous(placement, torch.bfloat16))


def test_layers_that_arent_the_ropes_are_refused() -> None:
    placement = replace(LAYERED, ranks=(8, 8)).placement()
    with pytest.raises(ConfigError, match=r"\[L=4, T, H, D=64\] as the rope's"):
        KERNEL.write(placement, contiguous(placement, torch.bfloat16))


def test_a_position_beyond_the_ropes_reach_is_refused() -> None:
    placement = replace(GQA, rope=spec(32, max_positions=100)).placement()
    with pytest.raises(UnsupportedRopeError, match="beyond the reach"):
        KERNEL.write(placement, contiguous(placement, torch.bfloat16))
