"""The inner block of the compiled CPU kernel, as LLVM vector code.

Numba's own loops keep the sums of a block in memory, not in registers, and know no bfloat16. So the block is
written here, instruction by instruction, through llvmlite: `block` is a function that Numba inlines into the
loops of `compiled.py`. A block is `tokens` rows of four vectors of W float32 lanes:

    sum[t, j]  = Σ_m u[t, m] · vt[m, j]          in registers, float32 (or pairs of bfloat16, see `dot`)
    x[t, j]    = canonical[t, j] + sum[t, j]
    y[t, j]    = cos · x[t, first] − sin · x[t, second], …      not contracted: as torch rounds it
    out[t, j]  = y[t, j], rounded once

Which numbers the four vectors are is the panel's business: a row of the plan (`Field`).
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from kamera.kernels.plan import Field, Kind

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
    """The CPU's features, as Numba compiles for them."""
    if config.CPU_FEATURES is not None:
        return {f[1:]: f[0] == "+" for f in config.CPU_FEATURES.split(",") if f}
    return dict(llvm.get_host_cpu_features())


llvm.initialize_native_asmparser()  # for the one instruction that LLVM doesn't choose by itself
_FEATURES = cpu_features()
WIDTH = 16 if _FEATURES.get("avx512bw") else 8 if _FEATURES.get("avx2") else 4
"""W: float32 lanes of a vector register."""
HAS_DOT = WIDTH == 16 and bool(_FEATURES.get("avx512bf16"))
"""Whether two bfloat16 products are added in one instruction."""
HAS_HALF = bool(_FEATURES.get("f16c") or _FEATURES.get("fullfp16"))
"""Whether float16 is converted in registers."""
TOKENS = 4
"""Rows of a full block: 16 sums, which is a 512-bit machine's latency times its throughput, and more."""
VECTORS = 4
LINE = 64
"""Bytes of a cache line."""


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

    def declared(self, name: str, kind: Any) -> Any:
        return cgutils.get_or_insert_function(self.b.module, kind, name)

    def store(self, value: Any, address: Any, stream: bool) -> None:
        """Lanes of the output dtype. `stream` goes past the cache and wants whole aligned vectors."""
        size = num_bytes(self.out)
        align = stream_bytes(size) if stream else size
        place = self.at(address, value.type)
        if stream and HAS_DOT and self.out == types.uint16:
            # LLVM sees through the cast to what was bfloat16, and its stores of that don't stream.
            kind = ir.FunctionType(ir.VoidType(), [place.type, value.type])
            self.b.asm(kind, "vmovntdq $1, ($0)", "r,v,~{memory}", [place, value], True)
            return
        made = self.b.store(value, place, align=align)
        if stream:
            hint = self.b.module.add_metadata([ir.Constant(I32, 1)])
            made.set_metadata("nontemporal", hint)

    def joined(self, first: Any, second: Any) -> Any:
        """Narrow lanes of both, one behind the other: 2W numbers, of bfloat16 a whole cache line."""
        lanes = [ir.Constant(I32, i) for i in range(2 * WIDTH)]
        mask = ir.Constant(ir.VectorType(I32, 2 * WIDTH), lanes)
        return self.b.shuffle_vector(first, second, mask)

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

    def prefetch(self, address: Any) -> None:
        kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        fn = self.declared("llvm.prefetch.p0", kind)
        ready = [ir.Constant(I32, n) for n in (0, 3, 1)]
        self.b.call(fn, [self.at(address, I8), *ready])


def stream_bytes(size: int) -> int:
    """Bytes of a store past the cache, and its alignment: two vectors of 16-bit numbers, one of float32."""
    return WIDTH * size * (2 if size == 2 else 1)


def num_bytes(kind: Any) -> int:
    """Of one number of a Numba type."""
    return int(kind.bitwidth) // 8


def sums(code: Code, tokens: int, dot: bool, rank: Any, vt: Any, u: Any, u_row: Any) -> list[Any]:
    """Emit Σ_m u · vt of a block: tokens × four vectors. `rank` counts what one step takes."""
    b = code.b
    zero = ir.Constant(code.vector, [0.0] * WIDTH)
    places = [cgutils.alloca_once(b, code.vector) for _ in range(tokens * VECTORS)]
    for place in places:
        b.store(zero, place)
    rows = [b.add(u, b.mul(u_row, ir.Constant(I64, t))) for t in range(tokens)]
    with cgutils.for_range(b, rank, intp=I64) as loop:
        step = b.add(vt, b.mul(loop.index, ir.Constant(I64, 4 * WIDTH * VECTORS)))
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
    """Emits a full block's loads, sums, turns and stores."""

    def __init__(self, code: Code, kind: Kind, stream: bool, args: dict[str, Any]) -> None:
        self.code, self.b, self.kind, self.stream, self.args = code, code.b, kind, stream, args
        plan, number = args["plan"], num_bytes(code.out)
        # Two runs of 2W numbers, or four of W.
        self.runs = 2 if kind is Kind.PAIRS else VECTORS
        self.lanes = WIDTH * VECTORS // self.runs
        self.base = [code.word(plan, Field.BASE + j) for j in range(self.runs)]
        self.out = [self.times(code.word(plan, Field.OUT + j), number) for j in range(self.runs)]
        self.turn = [self.times(code.word(plan, Field.TURN + j), 4) for j in range(2)]

    def times(self, value: Any, factor: int) -> Any:
        return self.b.mul(value, ir.Constant(I64, factor))

    def emit(self, added: list[Any] | None) -> None:
        """All tokens. Without anything added, numbers that stay and keep their dtype keep their bits."""
        code, b = self.code, self.b
        keeps = added is None and code.base == code.out
        for t in range(TOKENS):
            row = b.add(self.args["base"], self.times(self.args["base_row"], t))
            place = code.word(self.args["rows"], t)
            to = b.add(self.args["out"], self.times(place, num_bytes(code.out)))
            self.fetch_ahead(row)
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

    def fetch_ahead(self, row: Any) -> None:
        """Ask for the cache lines that the tile ahead reads at this place."""
        run = self.lanes * num_bytes(self.code.base)
        for base in self.base[:: max(LINE // run, 1)]:
            for line in range(0, run, LINE):
                place = self.b.add(self.b.add(row, base), self.args["ahead"])
                self.code.prefetch(self.b.add(place, ir.Constant(I64, line)))

    def copy(self, row: Any, to: Any) -> None:
        code, b = self.code, self.b
        kind = code.raw_type(code.base, self.lanes)
        for base, out in zip(self.base, self.out, strict=True):
            raw = code.plain(b.add(row, base), kind, num_bytes(code.base))
            code.store(raw, b.add(to, out), self.stream)

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
        y = [code.narrow(value) for value in x]
        out = self.out
        if self.kind is Kind.PAIRS:
            y = [code.interleaved(y[j], y[2 + j]) for j in range(2)]
        elif self.stream and num_bytes(code.out) == 2:
            y = [code.joined(y[j], y[j + 1]) for j in (0, 2)]
            out = [out[0], out[2]]
        for value, offset in zip(y, out, strict=True):
            code.store(value, self.b.add(to, offset), self.stream)


_NAMES = (
    "panels", "tokens", "plan", "base", "base_row", "ahead", "out", "rows", "cos", "sin", "turn_row", "still",
    "steps", "vt", "u", "u_row",
)  # fmt: skip


def each_block(builder: Any, args: dict[str, Any]) -> Any:
    """Loop over the panels and, within each, over the tokens of a tile: yields a block's own arguments.

    The last block of a tile begins TOKENS before its end: what it shares with the one before is computed
    twice, to the same values.
    """
    b = builder

    def times(value: Any, factor: int) -> Any:
        return b.mul(value, ir.Constant(I64, factor))

    count = b.sdiv(b.add(args["tokens"], ir.Constant(I64, TOKENS - 1)), ir.Constant(I64, TOKENS))
    latest = b.sub(args["tokens"], ir.Constant(I64, TOKENS))
    with cgutils.for_range(b, args["panels"], intp=I64) as panel:
        own = dict(args)
        own["plan"] = b.add(args["plan"], times(panel.index, 8 * Field.NEXT))
        packed = times(args["steps"], 4 * WIDTH * VECTORS)
        own["vt"] = b.add(args["vt"], b.mul(panel.index, packed))
        with cgutils.for_range(b, count, intp=I64) as loop:
            token = times(loop.index, TOKENS)
            token = b.select(b.icmp_signed("<", token, latest), token, latest)
            here = dict(own)
            for name, row in (("base", "base_row"), ("u", "u_row")):
                here[name] = b.add(args[name], b.mul(token, args[row]))
            for name in ("cos", "sin"):
                here[name] = b.add(args[name], b.mul(token, args["turn_row"]))
            here["rows"] = b.add(args["rows"], times(token, 8))
            here["still"] = b.add(args["still"], token)
            yield here


@intrinsic(prefer_literal=True)
def tile(typing_context, base_tag, out_tag, factor_tag, kind, patched, stream, arguments):
    """Compute and write a tile: some whole panels of one kind, TOKENS tokens or more.

    The tags are empty arrays of the numeric formats (`loops.write`); packed factors are float32, or
    uint16 for pairs of bfloat16. `kind`, `patched` and `stream` are literals. `arguments`: a tuple of
    int64 in the order of `_NAMES`; addresses are in bytes.
    """
    literals = [kind, patched, stream]
    if not all(isinstance(one, types.IntegerLiteral) for one in literals):
        return None
    of = [one.literal_value for one in literals]
    signature = types.void(base_tag, out_tag, factor_tag, *literals, arguments)

    def emit(context, builder, signature, values):
        words = cgutils.unpack_tuple(builder, values[6], len(_NAMES))
        args = dict(zip(_NAMES, words, strict=True))
        code = Code(builder, base_tag.dtype, out_tag.dtype)
        for own in each_block(builder, args):
            added = None
            if of[1]:
                factors = (own["steps"], own["vt"], own["u"], own["u_row"])
                added = sums(code, TOKENS, factor_tag.dtype == types.uint16, *factors)
            Block(code, Kind(of[0]), bool(of[2]), own).emit(added)
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


@intrinsic
def load_one(typing_context, tag, address):
    """The number at an address, as float32."""
    kind = tag.dtype

    def emit(context, builder, signature, values):
        number = {types.uint16: I16, types.int16: F16, types.float32: F32}[kind]
        raw = builder.load(builder.inttoptr(values[1], number.as_pointer()), align=num_bytes(kind))
        if kind == types.uint16:
            high = builder.shl(builder.zext(raw, I32), ir.Constant(I32, 16))
            return builder.bitcast(high, F32)
        return builder.fpext(raw, F32) if kind == types.int16 else raw

    return types.float32(tag, types.int64), emit


@intrinsic
def store_one(typing_context, tag, address, value):
    """Write a float32 to an address in the format of `tag`, rounded to nearest even."""
    kind = tag.dtype

    def emit(context, builder, signature, values):
        value = values[2]
        if kind == types.int16:
            value = builder.fptrunc(value, F16)
        elif kind == types.uint16:
            bits = builder.bitcast(value, I32)
            high = builder.lshr(bits, ir.Constant(I32, 16))
            odd = builder.and_(high, ir.Constant(I32, 1))
            total = builder.add(builder.add(bits, ir.Constant(I32, 0x7FFF)), odd)
            is_nan = builder.fcmp_unordered("uno", value, value)
            quiet = builder.or_(high, ir.Constant(I32, 0x40))
            rounded = builder.lshr(total, ir.Constant(I32, 16))
            value = builder.trunc(builder.select(is_nan, quiet, rounded), I16)
        place = builder.inttoptr(values[1], value.type.as_pointer())
        builder.store(value, place, align=num_bytes(kind))
        return context.get_dummy_value()

    return types.void(tag, types.int64, types.float32), emit


@intrinsic
def copy_one(typing_context, tag, source, target):
    """Copy one number's bits from an address to another."""
    size = num_bytes(tag.dtype)

    def emit(context, builder, signature, values):
        kind = ir.IntType(8 * size).as_pointer()
        bits = builder.load(builder.inttoptr(values[1], kind), align=size)
        builder.store(bits, builder.inttoptr(values[2], kind), align=size)
        return context.get_dummy_value()

    return types.void(tag, types.int64, types.int64), emit


@intrinsic
def load_byte(typing_context, address):
    """The byte at an address."""

    def emit(context, builder, signature, values):
        return builder.load(builder.inttoptr(values[0], I8.as_pointer()))

    return types.uint8(types.int64), emit


@intrinsic
def load_word(typing_context, address, index):
    """The int64 at `address` + 8 · index."""

    def emit(context, builder, signature, values):
        place = builder.add(values[0], builder.mul(values[1], ir.Constant(I64, 8)))
        return builder.load(builder.inttoptr(place, I64.as_pointer()))

    return types.int64(types.int64, types.int64), emit


@intrinsic
def pack_vectors(typing_context, factor_tag, first, second, to):
    """Copy a vector of vt; of bfloat16 two, lane by lane side by side."""

    def emit(context, builder, signature, values):
        code = Code(builder, factor_tag.dtype, factor_tag.dtype)
        kind, size = code.raw_type(factor_tag.dtype), num_bytes(factor_tag.dtype)
        raw = code.plain(values[1], kind, size)
        if factor_tag.dtype == types.uint16:
            raw = code.interleaved(raw, code.plain(values[2], kind, size))
        code.store(raw, values[3], False)
        return context.get_dummy_value()

    return types.void(factor_tag, types.int64, types.int64, types.int64), emit
