"""The inner block of the compiled CPU kernel, as LLVM vector code that Numba inlines into its loops.

What is computed at once is a panel of a block: TOKENS rows of four vectors of W float32 lanes:

    sum[t, j]  = Σ_m u[t, m] · vt[m, j]          in registers, float32 (or pairs of bfloat16, see `dot`)
    x[t, j]    = canonical[t, j] + sum[t, j]
    y[t, j]    = cos · x[t, first] − sin · x[t, second], …      not contracted: as torch rounds it
    out[t, j]  = y[t, j], rounded once

Which numbers the four vectors are is the panel's business: a row of the plan (`Field`).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kamera.kernels.carry_code import CARRY_NAMES, emit_carry
from kamera.kernels.plan import Field, Kind
from kamera.kernels.vector_code import F32, HAS_DOT, I8, I32, I64, WIDTH, Code, num_bytes

TOKENS = 4
"""Rows of a block: 16 sums, which is a 512-bit machine's latency times its throughput, and more."""
VECTORS = 4
STEP_BYTES = 4 * WIDTH * VECTORS
"""Of packed vt that one step of a panel's sum takes."""


def sums(code: Code, tokens: int, dot: bool, steps: Any, vt: Any, u: Any, u_row: Any) -> list[Any]:
    """Emit Σ_m u · vt of a block: tokens × four vectors. A step takes one m, or two of bfloat16."""
    b = code.b
    zero = ir.Constant(code.vector, [0.0] * WIDTH)
    places = [cgutils.alloca_once(b, code.vector) for _ in range(tokens * VECTORS)]
    for place in places:
        b.store(zero, place)
    rows = [b.add(u, b.mul(u_row, ir.Constant(I64, t))) for t in range(tokens)]
    with cgutils.for_range(b, steps, intp=I64) as loop:
        step = b.add(vt, b.mul(loop.index, ir.Constant(I64, STEP_BYTES)))
        kind = code.words if dot else code.vector
        columns = [
            code.plain(b.add(step, ir.Constant(I64, 4 * WIDTH * j)), kind, 4)
            for j in range(VECTORS)
        ]
        across = b.mul(loop.index, ir.Constant(I64, 4))
        for t in range(tokens):
            one = code.plain(b.add(rows[t], across), I32 if dot else F32, 4 if not dot else 2)
            row = code.splat(one, kind)
            for j in range(VECTORS):
                place = places[t * VECTORS + j]
                product = code.dot if dot else code.fma
                b.store(product(row, columns[j], b.load(place)), place)
    return [b.load(place) for place in places]


class Block:
    """Emits a block's loads, sums, turns and stores; `args` names its addresses (`_NAMES`)."""

    def __init__(self, code: Code, kind: Kind, args: dict[str, Any]) -> None:
        self.code, self.b, self.kind, self.args = code, code.b, kind, args
        plan, number = args["plan"], num_bytes(code.out)
        # Two runs of 2W numbers, or four of W.
        self.runs = 2 if kind is Kind.PAIRS else VECTORS
        self.lanes = WIDTH * VECTORS // self.runs
        self.base = [code.word(plan, Field.BASE + j) for j in range(self.runs)]
        self.out = [
            self.times(code.word(plan, Field.FEATURE + j), number) for j in range(self.runs)
        ]
        if kind is not Kind.PAIRS:
            step = ir.Constant(I64, WIDTH * number)
            self.adjacent = [
                self.b.icmp_signed("==", self.b.add(self.out[j], step), self.out[j + 1])
                for j in (0, 2)
            ]
        self.turn = [self.times(code.word(plan, Field.TURN + j), 4) for j in range(2)]

    def times(self, value: Any, factor: int) -> Any:
        return self.b.mul(value, ir.Constant(I64, factor))

    def emit(self, added: list[Any] | None) -> None:
        """All tokens. Without anything added, numbers that stay and keep their dtype keep their bits."""
        code, b = self.code, self.b
        keeps = added is None and code.base == code.out
        for t in range(TOKENS):
            row = b.add(self.args["base"], self.times(self.args["base_row"], t))
            to = b.add(self.args["out"], self.times(self.args["out_row"], t))
            if self.kind is Kind.PLAIN and keeps:
                self.copy(row, to)
            elif self.kind is Kind.PLAIN:
                self.store(self.loaded(row, added, t), to)
            else:
                still = code.plain(b.add(self.args["still"], ir.Constant(I64, t)), I8, 1)
                moves = b.icmp_unsigned("==", still, ir.Constant(I8, 0))
                with b.if_else(moves, likely=True) as (then, otherwise):
                    with then:
                        self.store(self.turned(self.loaded(row, added, t), t), to)
                    with otherwise:
                        if keeps:
                            self.copy(row, to)
                        else:
                            self.store(self.loaded(row, added, t), to)

    def copy(self, row: Any, to: Any) -> None:
        code, b = self.code, self.b
        kind = code.raw_type(code.base, self.lanes)
        for base, out in zip(self.base, self.out, strict=True):
            raw = code.plain(b.add(row, base), kind, num_bytes(code.base))
            code.store(raw, b.add(to, out))

    def loaded(self, row: Any, added: list[Any] | None, t: int) -> list[Any]:
        code, b = self.code, self.b
        if self.kind is Kind.PAIRS:
            (a, c), (d, e) = (code.load_pairs(b.add(row, base)) for base in self.base)
            x = [a, d, c, e]
        else:
            x = [code.load(b.add(row, base)) for base in self.base]
        if added is None:
            return x
        return [b.fadd(x[j], added[t * VECTORS + j]) for j in range(VECTORS)]

    def turned(self, x: list[Any], t: int) -> list[Any]:
        code, b = self.code, self.b
        y: list[Any] = [None] * VECTORS
        for j in range(2):
            offset = b.add(self.turn[j], self.times(self.args["turn_row"], t))
            cos = code.floats(b.add(self.args["cos"], offset))
            sin = code.floats(b.add(self.args["sin"], offset))
            y[j], y[2 + j] = code.turned(x[j], x[2 + j], cos, sin)
        return y

    def store(self, x: list[Any], to: Any) -> None:
        code = self.code
        if self.kind is not Kind.PAIRS and HAS_DOT and code.out == types.uint16:
            for j in (0, 2):
                both = code.narrow_two(x[j], x[j + 1])
                first, second = (self.b.add(to, self.out[n]) for n in (j, j + 1))
                with self.b.if_else(self.adjacent[j // 2], likely=True) as (then, otherwise):
                    with then:
                        code.store(both, first)
                    with otherwise:
                        code.store(code.half(both, 0), first)
                        code.store(code.half(both, 1), second)
            return
        y = [code.narrow(value) for value in x]
        if self.kind is Kind.PAIRS:
            y = [code.interleaved(y[j], y[2 + j]) for j in range(2)]
        for value, offset in zip(y, self.out, strict=True):
            code.store(value, self.b.add(to, offset))


_NAMES = (
    "panels", "plan", "base", "base_row", "out", "out_row", "cos", "sin", "turn_row", "still",
    "steps", "vt", "u", "u_row",
    "first", *CARRY_NAMES,
)  # fmt: skip


@intrinsic(prefer_literal=True)
def block(typing_context, base_tag, out_tag, factor_tag, kind, patched, arguments):
    """Compute TOKENS tokens of some whole panels of one kind, and meanwhile move the block before.

    The tags are empty arrays of the numeric formats (`loops.write`); packed factors are float32, or
    uint16 for pairs of bfloat16. `kind` and `patched` are literals. `arguments`: a tuple of int64 in the
    order of `_NAMES`; addresses are in bytes. `out` is a row of all features, in their order. With panel
    n, which counts from `first`, go `a_line` of the `lines` and `a_move` of the `moves` (`carry`).
    """
    literals = [kind, patched]
    if not all(isinstance(one, types.IntegerLiteral) for one in literals):
        return None
    of = [one.literal_value for one in literals]
    signature = types.void(base_tag, out_tag, factor_tag, *literals, arguments)

    def emit(context, builder, signature, values):
        words = cgutils.unpack_tuple(builder, values[5], len(_NAMES))
        args = dict(zip(_NAMES, words, strict=True))
        code = Code(builder, base_tag.dtype, out_tag.dtype)
        packed = builder.mul(args["steps"], ir.Constant(I64, STEP_BYTES))
        with cgutils.for_range(builder, args["panels"], intp=I64) as panel:
            own = dict(args)
            here = builder.mul(panel.index, ir.Constant(I64, 8 * Field.NEXT))
            own["plan"] = builder.add(args["plan"], here)
            own["vt"] = builder.add(args["vt"], builder.mul(panel.index, packed))
            added = None
            if of[1]:
                factors = (own["steps"], own["vt"], own["u"], own["u_row"])
                added = sums(code, TOKENS, factor_tag.dtype == types.uint16, *factors)
            Block(code, Kind(of[0]), own).emit(added)
            emit_carry(builder, args, builder.add(args["first"], panel.index))
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def sums_of_one(typing_context, factor_tag, steps, vt, u, to):
    """Write the four vectors of sums of one token to `to`, float32."""
    signature = types.void(factor_tag, steps, vt, u, to)
    dot = factor_tag.dtype == types.uint16

    def emit(context, builder, signature, values):
        code = Code(builder, types.float32, types.float32)
        _, steps, vt, u, to = values
        made = sums(code, 1, dot, steps, vt, u, ir.Constant(I64, 0))
        for j, value in enumerate(made):
            place = builder.add(to, ir.Constant(I64, 4 * WIDTH * j))
            builder.store(value, code.at(place, code.vector), align=4)
        return context.get_dummy_value()

    return signature, emit
