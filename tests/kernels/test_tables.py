"""Rotation tables that are kept give the numbers that would be computed."""

import pytest
import torch
from placements import ROPES, bits, chunk, spec

from kamera.kernels import Placement, tables

CASES = {
    "in one span": torch.arange(5, 60),
    "over three spans": torch.arange(1000, 3100),
    "not in order": torch.tensor([7, 2500, 8, 1023, 1024]),
    "one": torch.tensor([0]),
    "as far as a model goes": torch.arange(999_990, 1_000_010),
    "further apart than tables are kept for": torch.tensor([0, 1_000_000]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_one_axis(case, dtype):
    rope = spec(64, 128)
    positions = CASES[case][:, None].to(dtype)
    (found,) = tables.turns(
        Placement(chunk(len(positions), rope, torch.bfloat16), None, positions, rope)
    )
    cos, sin = tables._computed(positions, rope)
    assert torch.equal(bits(found.cos), bits(cos))
    assert torch.equal(bits(found.sin), bits(sin))
    assert found.cos.stride(1) == 1


@pytest.mark.parametrize("far", [0, 5000, 10**6])
def test_three_axes(far):
    rope = spec(64, 128, axes=3)
    t = torch.arange(40)
    positions = torch.stack([0 * t + 1020, 1000 + t // 8, far + t % 8], dim=1)
    (found,) = tables.turns(Placement(chunk(40, rope, torch.float32), None, positions, rope))
    cos, sin = tables._computed(positions, rope)
    assert torch.equal(bits(found.cos), bits(cos))
    assert torch.equal(bits(found.sin), bits(sin))


def test_three_axes_of_text():
    rope = spec(64, 128, axes=3)
    positions = torch.arange(1000, 1050)[:, None].expand(-1, 3)
    (found,) = tables.turns(Placement(chunk(50, rope, torch.float32), None, positions, rope))
    assert torch.equal(bits(found.cos), bits(tables._computed(positions, rope)[0]))


ENDS = {
    torch.int8: [126, 127],
    torch.int32: [2**31 - 2, 2**31 - 1],
    torch.int64: [2**63 - 2, 2**63 - 1],
}


@pytest.mark.parametrize("dtype", ENDS)
def test_the_last_positions_of_a_dtype(dtype):
    rope = spec(4, 8)
    positions = torch.tensor(ENDS[dtype], dtype=dtype)[:, None]
    (found,) = tables.turns(Placement(chunk(2, rope, torch.float32), None, positions, rope))
    assert torch.equal(bits(found.cos), bits(tables._computed(positions, rope)[0]))


def test_what_is_kept_depends_on_no_mode_of_torch():
    """A table may be made while a model is loaded on another device, and is read everywhere after that."""
    rope, positions = spec(4, 8, scaling=1.25), torch.tensor([[3], [2000]])
    kv = chunk(2, rope, torch.float32)
    tables._span.cache_clear()
    with torch.inference_mode(), torch.device("meta"):
        (made,) = tables.turns(Placement(kv, None, positions, rope))
    (kept,) = tables.turns(Placement(kv, None, positions, rope))
    wanted = tables._computed(positions, rope)[0]
    assert made.cos.equal(wanted)
    assert kept.cos.equal(wanted)


def test_positions_are_brought_to_the_keys(monkeypatch):
    """As `kamera.patch.apply` does: a kernel reads the tables by their addresses."""
    rope = spec(4, 8)
    asked = []
    to = torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "to", lambda x, *a: asked.append(a[0]) or to(x, *a))
    tables.turns(Placement(chunk(2, rope, torch.float32), None, torch.tensor([[3], [4]]), rope))
    assert torch.device("cpu") in asked


def test_the_attention_factor_is_in_what_is_kept():
    scaled, plain = (ROPES[name] for name in ("attention factor", "1-D"))
    for rope in (scaled, plain):
        positions = torch.arange(1, 9)[:, None]
        (found,) = tables.turns(Placement(chunk(8, rope, torch.float32), None, positions, rope))
        assert torch.equal(found.cos, tables._computed(positions, rope)[0])
    assert scaled.attention_scaling != 1.0


def test_few_are_kept():
    for far in range(200):
        tables._span(spec(4, 8), far)
    assert tables._span.cache_info().currsize <= 64
