"""Single numbers and vectors at addresses in memory, as LLVM code that Numba inlines into its loops."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kamera.kernels.vector_code import F16, F32, I8, I16, I32, I64, Code, num_bytes


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
        code.store(raw, values[3])
        return context.get_dummy_value()

    return types.void(factor_tag, types.int64, types.int64, types.int64), emit


@intrinsic
def take(typing_context, address):
    """The int64 at an address, which is then one more: no two threads get the same."""

    def emit(context, builder, signature, values):
        place = builder.inttoptr(values[0], I64.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(I64, 1), "seq_cst")

    return types.int64(types.int64), emit


@intrinsic
def store_word(typing_context, address, index, value):
    """Write an int64 to `address` + 8 · index."""

    def emit(context, builder, signature, values):
        place = builder.add(values[0], builder.mul(values[1], ir.Constant(I64, 8)))
        builder.store(values[2], builder.inttoptr(place, I64.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit
