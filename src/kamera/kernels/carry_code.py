"""What memory does while a block is computed, as LLVM code.

The block before goes to its place, and the canonical of the next is fetched: a share of both with each panel,
so that memory is never idle, and is read and written in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kamera.kernels.vector_code import I8, I32, I64, WIDTH

MOVE_BYTES = 4 * WIDTH
"""What one move takes: a vector register."""
LINE = 64
"""Bytes of a cache line."""
MOVE_WORDS = 3
"""int64 a move: byte offset in the block's rows, token, byte offset in the token's destination."""

CARRY_NAMES = (
    "lines", "num_lines", "a_line", "wanted", "moves", "num_moves", "a_move", "before", "places", "past",
)  # fmt: skip


def emit_carry(builder: Any, args: dict[str, Any], panel: Any) -> None:
    """Emit the share of one panel: `a_line` lines and `a_move` moves, as far as there are any.

    Args:
        lines: address of byte offsets from `wanted`, of `num_lines` cache lines.
        moves: address of `num_moves` moves, from the rows at `before`.
        places: address of the destination's address of each of the block's tokens.
        past: whether to write past the cache; every move then goes to an address of whole vectors.
    """
    ends = [
        _end(builder, panel, args[each], args[count])
        for each, count in (("a_line", "num_lines"), ("a_move", "num_moves"))
    ]
    line = cgutils.alloca_once_value(builder, builder.mul(panel, args["a_line"]))
    past = builder.icmp_unsigned("!=", args["past"], ir.Constant(I64, 0))
    first = builder.mul(panel, args["a_move"])
    with builder.if_else(past) as (then, otherwise):
        for branch, is_past in ((then, True), (otherwise, False)):
            with branch, _range(builder, first, ends[1]) as one:
                here = builder.load(line)
                with builder.if_then(builder.icmp_signed("<", here, ends[0])):
                    _prefetch(builder, args, here)
                    builder.store(builder.add(here, ir.Constant(I64, 1)), line)
                _move(builder, args, one, is_past)
    with _range(builder, builder.load(line), ends[0]) as rest:
        _prefetch(builder, args, rest)


@intrinsic
def carry(typing_context, panel, arguments):
    """The share of a panel that isn't a block's. `arguments`: int64 in the order of `CARRY_NAMES`."""

    def emit(context, builder, signature, values):
        words = cgutils.unpack_tuple(builder, values[1], len(CARRY_NAMES))
        emit_carry(builder, dict(zip(CARRY_NAMES, words, strict=True)), values[0])
        return context.get_dummy_value()

    return types.void(types.int64, arguments), emit


def _end(builder: Any, panel: Any, each: Any, count: Any) -> Any:
    """Where the share of panel n ends, at `each` a panel: not beyond `count`."""
    end = builder.add(builder.mul(panel, each), each)
    return builder.select(builder.icmp_signed("<", end, count), end, count)


@contextmanager
def _range(builder: Any, start: Any, end: Any) -> Iterator[Any]:
    """A loop: yields the index."""
    with cgutils.for_range_slice(builder, start, end, ir.Constant(I64, 1), intp=I64) as loop:
        yield loop[0]


def _word(builder: Any, address: Any, index: Any) -> Any:
    place = builder.add(address, builder.mul(index, ir.Constant(I64, 8)))
    return builder.load(builder.inttoptr(place, I64.as_pointer()))


def _prefetch(builder: Any, args: dict[str, Any], line: Any) -> None:
    address = builder.add(args["wanted"], _word(builder, args["lines"], line))
    kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    fn = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    hints = [ir.Constant(I32, n) for n in (0, 3, 1)]  # to read, into all caches, of data
    builder.call(fn, [builder.inttoptr(address, I8.as_pointer()), *hints])


def _move(builder: Any, args: dict[str, Any], index: Any, past: bool) -> None:
    first = builder.mul(index, ir.Constant(I64, MOVE_WORDS))
    offset, token, to = (
        _word(builder, args["moves"], builder.add(first, ir.Constant(I64, n)))
        for n in range(MOVE_WORDS)
    )
    kind = ir.VectorType(I32, WIDTH).as_pointer()
    source = builder.inttoptr(builder.add(args["before"], offset), kind)
    place = builder.add(_word(builder, args["places"], token), to)
    raw = builder.load(source, align=1)
    made = builder.store(raw, builder.inttoptr(place, kind), align=MOVE_BYTES if past else 1)
    if past:
        hint = builder.module.add_metadata([ir.Constant(I32, 1)])
        made.set_metadata("nontemporal", hint)
