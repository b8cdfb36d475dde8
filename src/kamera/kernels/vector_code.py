"""The vector instructions that the compiled CPU kernel is made of, as LLVM code for this machine's CPU.

Numba knows no bfloat16 and keeps no block of sums in registers. So what the inner loops do is emitted here,
instruction by instruction, through llvmlite.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32 = ir.FloatType()
F16 = ir.HalfType()


class Bfloat(ir.types._BaseFloatType):
    """LLVM's bfloat, which llvmlite doesn't name."""

    null = "0.0"
    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"


Bfloat._create_instance()
BF16 = Bfloat()


def cpu_features() -> dict[str, bool]:
    """The CPU's features, as Numba compiles for them: it leaves out AVX where NUMBA_ENABLE_AVX says so."""
    flat = config.CPU_FEATURES
    if flat is None:
        flat = get_host_cpu_features()
    return {f[1:]: f[0] == "+" for f in flat.split(",") if f}


_FEATURES = cpu_features()
WIDTH = 16 if _FEATURES.get("avx512bw") else 8 if _FEATURES.get("avx2") else 4
"""W: float32 lanes of a vector register."""
HAS_DOT = WIDTH == 16 and bool(_FEATURES.get("avx512bf16"))
"""Whether two bfloat16 products are added in one instruction."""
HAS_HALF = bool(_FEATURES.get("f16c") or _FEATURES.get("fullfp16"))
"""Whether float16 is converted in registers."""


class Code:
    """Emits vector instructions for one numeric format in and one out."""

    def __init__(self, builder: Any, base: Any, out: Any) -> None:
        self.b, self.base, self.out = builder, base, out
        self.vector = ir.VectorType(F32, WIDTH)
        self.words = ir.VectorType(I32, WIDTH)
        self.shorts = ir.VectorType(I16, WIDTH)

    def at(self, address: Any, kind: Any) -> Any:
        return self.b.inttoptr(address, kind.as_pointer())

    def word(self, address: Any, index: int) -> Any:
        """The int64 at `address` + 8 · index."""
        place = self.b.add(address, ir.Constant(I64, 8 * index))
        return self.b.load(self.at(place, I64))

    def plain(self, address: Any, kind: Any, align: int) -> Any:
        return self.b.load(self.at(address, kind), align=align)

    def floats(self, address: Any) -> Any:
        return self.plain(address, self.vector, 4)

    def splat(self, value: Any, kind: Any) -> Any:
        empty = ir.Constant(kind, ir.Undefined)
        one = self.b.insert_element(empty, value, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, WIDTH), [0] * WIDTH)
        return self.b.shuffle_vector(one, empty, zeros)

    def constant(self, value: int) -> Any:
        return ir.Constant(self.words, [value] * WIDTH)

    # ---- numbers of the cache into lanes ----------------------------------------------------------------

    def widen(self, raw: Any, kind: Any) -> Any:
        """Lanes of the cache dtype to float32, exactly."""
        if kind == types.uint16:
            high = self.b.shl(self.b.zext(raw, self.words), self.constant(16))
            return self.b.bitcast(high, self.vector)
        return self.b.fpext(raw, self.vector) if kind == types.int16 else raw

    def raw_type(self, kind: Any, lanes: int = WIDTH) -> Any:
        number = {types.uint16: I16, types.int16: F16, types.float32: F32}[kind]
        return ir.VectorType(number, lanes)

    def load(self, address: Any) -> Any:
        raw = self.plain(address, self.raw_type(self.base), num_bytes(self.base))
        return self.widen(raw, self.base)

    def load_pairs(self, address: Any) -> tuple[Any, Any]:
        """2W numbers: the even ones and the odd ones."""
        if self.base == types.uint16:
            both = self.plain(address, self.words, 2)
            even = self.b.shl(both, self.constant(16))
            odd = self.b.and_(both, self.constant(0xFFFF0000))
            return self.b.bitcast(even, self.vector), self.b.bitcast(odd, self.vector)
        raw = self.plain(address, self.raw_type(self.base, 2 * WIDTH), num_bytes(self.base))
        parts = []
        for first in (0, 1):
            lanes = [ir.Constant(I32, first + 2 * i) for i in range(WIDTH)]
            mask = ir.Constant(self.words, lanes)
            part = self.b.shuffle_vector(raw, ir.Constant(raw.type, ir.Undefined), mask)
            parts.append(self.widen(part, self.base))
        return parts[0], parts[1]

    # ---- lanes into numbers of the cache, one rounding --------------------------------------------------

    def narrow(self, value: Any) -> Any:
        """float32 lanes to the output's, to nearest even."""
        if self.out == types.float32:
            return value
        if self.out == types.int16:
            return self.b.fptrunc(value, self.raw_type(self.out))
        if HAS_DOT:
            kind = ir.FunctionType(ir.VectorType(BF16, WIDTH), [self.vector])
            name = "llvm.x86.avx512bf16.cvtneps2bf16.512"
            rounded = self.b.call(self.declared(name, kind), [value])
            return self.b.bitcast(rounded, self.shorts)
        bits = self.b.bitcast(value, self.words)
        high = self.b.lshr(bits, self.constant(16))
        odd = self.b.and_(high, self.constant(1))
        total = self.b.add(self.b.add(bits, self.constant(0x7FFF)), odd)
        quiet = self.b.or_(high, self.constant(0x40))
        is_nan = self.b.fcmp_unordered("uno", value, value)
        rounded = self.b.select(is_nan, quiet, self.b.lshr(total, self.constant(16)))
        return self.b.trunc(rounded, self.shorts)

    def narrow_two(self, first: Any, second: Any) -> Any:
        """float32 lanes of both to bfloat16, one behind the other: 2W numbers."""
        kind = ir.FunctionType(ir.VectorType(BF16, 2 * WIDTH), [self.vector, self.vector])
        name = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
        made = self.b.call(self.declared(name, kind), [second, first])
        return self.b.bitcast(made, ir.VectorType(I16, 2 * WIDTH))

    def half(self, both: Any, which: int) -> Any:
        """W numbers of 2W: the first or the second."""
        lanes = [ir.Constant(I32, which * WIDTH + i) for i in range(WIDTH)]
        mask = ir.Constant(ir.VectorType(I32, WIDTH), lanes)
        return self.b.shuffle_vector(both, ir.Constant(both.type, ir.Undefined), mask)

    def declared(self, name: str, kind: Any) -> Any:
        return cgutils.get_or_insert_function(self.b.module, kind, name)

    def store(self, value: Any, address: Any) -> None:
        """Lanes of the output dtype."""
        self.b.store(value, self.at(address, value.type), align=num_bytes(self.out))

    def interleaved(self, first: Any, second: Any) -> Any:
        """Narrow lanes of both, in turn: 2W numbers."""
        lanes = []
        for i in range(WIDTH):
            lanes += [ir.Constant(I32, i), ir.Constant(I32, WIDTH + i)]
        mask = ir.Constant(ir.VectorType(I32, 2 * WIDTH), lanes)
        return self.b.shuffle_vector(first, second, mask)

    # ---- arithmetic -------------------------------------------------------------------------------------

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return self.b.call(self.declared(f"llvm.fma.v{WIDTH}f32", kind), [a, b, c])

    def dot(self, a: Any, b: Any, c: Any) -> Any:
        """c + a₀b₀ + a₁b₁ by lane: W pairs of bfloat16 each."""
        pairs = ir.VectorType(BF16, 2 * WIDTH)
        kind = ir.FunctionType(self.vector, [self.vector, pairs, pairs])
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
        ready = [c, self.b.bitcast(a, pairs), self.b.bitcast(b, pairs)]
        return self.b.call(self.declared(name, kind), ready)

    def turned(self, first: Any, second: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
        b = self.b
        return (
            b.fsub(b.fmul(first, cos), b.fmul(second, sin)),
            b.fadd(b.fmul(second, cos), b.fmul(first, sin)),
        )


def num_bytes(kind: Any) -> int:
    """Of one number of a Numba type."""
    return int(kind.bitwidth) // 8
