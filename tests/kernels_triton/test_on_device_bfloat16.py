"""bfloat16 in Triton's interpreter is a GPU's: `mend` is needed, and enough."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton_device import DEVICE

from kamera.kernels.triton_interpreter import interpreting, mend, narrow, widen


@triton.jit
def cast(x_ptr, out_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.bfloat16))


@triton.jit
def square(x_ptr, out_ptr):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.dot(x, x, input_precision="ieee"))


def test_a_cast_rounds_to_nearest_even() -> None:
    mend()
    halves = torch.arange(2**14, dtype=torch.int32, device=DEVICE) * 0x8000 + 0x3F000000
    x = torch.cat([halves.view(torch.float32), torch.randn(2**14).to(DEVICE)])
    out = torch.empty(2**15, dtype=torch.bfloat16, device=DEVICE)
    cast[(1,)](x, out, SIZE=2**15)
    assert out.equal(x.to(torch.bfloat16))


def test_a_dot_multiplies_numbers() -> None:
    mend()
    x = torch.randn(16, 16).to(DEVICE, torch.bfloat16)
    out = torch.empty(16, 16, device=DEVICE)
    square[(1,)](x, out)
    exact = x.double() @ x.double()
    size = x.double().abs() @ x.double().abs()
    assert ((out.double() - exact).abs() <= 16 * 2.0**-24 * size).all()


def test_every_bfloat16_survives_being_widened() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    finite = torch.from_numpy(bits).view(torch.bfloat16).isfinite().numpy()
    assert (narrow(widen(bits))[finite] == bits[finite]).all()


@pytest.mark.skipif(not interpreting(), reason="a GPU needs no mending")
def test_mending_twice_is_mending_once() -> None:
    mend()
    before = triton.runtime.interpreter.InterpreterBuilder.cast_impl
    mend()
    assert triton.runtime.interpreter.InterpreterBuilder.cast_impl is before
