"""A call of compiled code by every thread of an OpenMP team, as LLVM code that Numba inlines."""

from __future__ import annotations

from itertools import count

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature as signature_of
from numba.extending import intrinsic

from kamera.kernels.vector_code import I8, I32, I64

_numbers = count()


def in_team(share):
    """An intrinsic `(parallel, num_threads, job)` that has `num_threads` threads call `share(job)` at once.

    `parallel` is the address of the runtime's `GOMP_parallel`, which returns when all of them did; 0 calls
    `share` in this thread alone. `share` is compiled with what calls it, and must not raise.
    """

    @intrinsic
    def call(typing_context, parallel, num_threads, job):
        def emit(context, builder, signature, values):
            parallel, num_threads, words = values
            kind = signature_of(types.void, job)
            made = context.compile_subroutine(builder, share, kind)
            place = cgutils.alloca_once_value(builder, words)
            data = builder.bitcast(place, I8.as_pointer())
            body_type = ir.FunctionType(ir.VoidType(), [I8.as_pointer()])
            name = f"kamera.team.{made.fndesc.mangled_name}.{next(_numbers)}"
            body = ir.Function(builder.module, body_type, name)
            body.linkage = "internal"
            inner = ir.IRBuilder(body.append_basic_block())
            loaded = inner.load(inner.bitcast(body.args[0], place.type))
            context.call_internal_no_propagate(inner, made.fndesc, kind, [loaded])
            inner.ret_void()
            alone = builder.icmp_unsigned("==", parallel, ir.Constant(I64, 0))
            with builder.if_else(alone) as (then, otherwise):
                with then:
                    builder.call(body, [data])
                with otherwise:
                    run_type = ir.FunctionType(
                        ir.VoidType(), [body_type.as_pointer(), I8.as_pointer(), I32, I32]
                    )
                    run = builder.inttoptr(parallel, run_type.as_pointer())
                    threads = builder.trunc(num_threads, I32)
                    builder.call(run, [body, data, threads, ir.Constant(I32, 0)])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, job), emit

    return call
