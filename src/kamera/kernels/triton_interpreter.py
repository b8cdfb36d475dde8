"""Triton's interpreter, which runs a kernel on CPU tensors, mended where it computes bfloat16 wrongly.

The interpreter keeps a bfloat16 as its 16 bits in a numpy integer. Of what `triton_tile` uses, two operations
aren't those of a GPU: a cast from float32 cuts the lower bits off where a GPU rounds to nearest even, and
`tl.dot` multiplies the bits as integers. The casts are replaced by torch's, whose rounding is the GPU's, and
the operands of a dot are widened first. Nothing else is touched, and nothing at all outside the interpreter.
"""

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter


def interpreting() -> bool:
    """Whether Triton was imported to interpret: TRITON_INTERPRET=1."""
    return bool(triton.knobs.runtime.interpret)


def mend() -> None:
    """Give the interpreter the bfloat16 arithmetic of a GPU. Twice is once."""
    builder = interpreter.InterpreterBuilder
    if builder.cast_impl.__module__ == __name__:
        return
    builder.cast_impl = _casting(builder.cast_impl)
    builder.create_dot = _dotting(builder.create_dot)


def _casting(original: Any) -> Any:
    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        pair = (src.dtype.scalar, dst_type.scalar)
        if pair == (tl.float32, tl.bfloat16):
            return interpreter.TensorHandle(narrow(src.data), tl.bfloat16)
        if pair == (tl.bfloat16, tl.float32):
            return interpreter.TensorHandle(widen(src.data), tl.float32)
        return original(self, src, dst_type)

    return cast_impl


def _dotting(original: Any) -> Any:
    def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        wide = [
            interpreter.TensorHandle(widen(x.data), tl.float32)
            if x.dtype.scalar == tl.bfloat16
            else x
            for x in (a, b)
        ]
        return original(self, *wide, d, *rest)

    return create_dot


def narrow(values: Any) -> Any:
    """float32 -> the bits of bfloat16, rounded to nearest even."""
    rounded = torch.from_numpy(np.ascontiguousarray(values)).to(torch.bfloat16)
    return rounded.view(torch.uint16).numpy().reshape(values.shape)


def widen(bits: Any) -> Any:
    """The bits of bfloat16 -> float32, exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
