"""The device code of the Triton kernel: one program relocates, patches and writes one tile.

A tile is `BLOCK_T` tokens of one head of one layer. Its rotary dims are taken a block of pairs at a time, and
the rotation is elementwise on the two tensors of first and second members; the dims behind them, and all dims
of a channel that doesn't rotate, are taken a block of columns at a time. Every number of
the canonical is read once and written once; the factors and the angle tables are small and come from the
caches after their first use.

The rank-m product is a `tl.dot` over `BLOCK_M` ranks at a time, padded with zeros, with a float32
accumulator. Factors in bfloat16 or float16 run on tensor cores, and their products are exact in float32;
float32 factors are multiplied in full precision ("ieee": no tf32), which tensor cores don't do.
"""

from typing import no_type_check

import triton
import triton.language as tl

LAYER_COLUMNS = 5
"""Of a row of `layers_ptr`: destination, layer, rank, ranks in front of it, angle table."""


# Not specialised for the sizes of a chunk: it would be compiled anew for some of them.
@triton.jit(do_not_specialize=["num_tokens", "skip"])
@no_type_check  # the annotations here are Triton's, not types to check
def apply_tile(
    src_ptr,  # the canonical [L, T, H, D], any strides
    layers_ptr,  # int64 [rows, LAYER_COLUMNS]
    slots_ptr,  # int64 [T'], -1 for a token that isn't written; or None: token i goes to block i
    u_ptr,  # flat [T, M_l] blocks, or None without a patch
    vt_ptr,  # flat [M_l, F] blocks, or None
    cos_ptr,  # float32 [tables, T', NUM_PAIRS], times the attention factor; or None without pairs
    sin_ptr,
    num_tokens,  # T': the tokens that are written
    skip,  # the tokens in front of them
    block_size,  # slots of a page
    num_features,  # F
    src_layer_stride,
    src_token_stride,
    src_head_stride,
    src_dim_stride,
    dst_block_stride,
    dst_slot_stride,
    dst_head_stride,
    dst_dim_stride,
    DST: tl.constexpr,  # the cache dtype
    DST_ALIGN: tl.constexpr,  # bytes that every destination is a multiple of
    RANK_ALIGN: tl.constexpr,  # what every rank is a multiple of
    COLUMNS: tl.constexpr,  # LAYER_COLUMNS
    HEAD_DIM: tl.constexpr,  # D
    NUM_PAIRS: tl.constexpr,  # N, 0 for a channel that doesn't rotate
    PAIRED: tl.constexpr,  # pair i at 2i and 2i + 1; else at i and i + N
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    # int64, as all that a stride multiplies: a pool is longer than 2^31 numbers.
    head = tl.program_id(1).to(tl.int64)
    entry = layers_ptr + COLUMNS * tl.program_id(2)
    # What is loaded has no known alignment, and unaligned rows are read number by number: so it is said.
    dst = tl.multiple_of(tl.load(entry).to(tl.pointer_type(DST)), DST_ALIGN)
    layer = tl.load(entry + 1)
    rank = tl.multiple_of(tl.load(entry + 2).to(tl.int32), RANK_ALIGN)
    start = tl.multiple_of(tl.load(entry + 3), RANK_ALIGN)

    tokens = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)).to(tl.int64)
    inside = tokens < num_tokens
    if slots_ptr is None:
        to = dst + tokens * dst_block_stride
    else:
        slots = tl.load(slots_ptr + tokens, mask=inside, other=-1)
        inside = slots >= 0
        to = dst + (slots // block_size) * dst_block_stride + (slots % block_size) * dst_slot_stride
    to = (to + head * dst_head_stride)[:, None]
    inside = inside[:, None]
    source = src_ptr + layer * src_layer_stride + head * src_head_stride
    source = (source + (tokens + skip) * src_token_stride)[:, None]
    u_rows = u_ptr
    vt_rows = vt_ptr
    if u_ptr is not None:
        u_rows = (u_ptr + start * (num_tokens + skip) + (tokens + skip) * rank)[:, None]
        vt_rows = vt_ptr + start * num_features + head * HEAD_DIM

    if NUM_PAIRS > 0:
        table = tl.load(entry + 4) * num_tokens
        for begin in range(0, NUM_PAIRS, BLOCK_N):
            pairs = (begin + tl.arange(0, BLOCK_N))[None, :]
            named = pairs < NUM_PAIRS
            mask = inside & named
            angles = (table + tokens)[:, None] * NUM_PAIRS + pairs
            cos_at, sin_at = cos_ptr + angles, sin_ptr + angles
            if PAIRED:
                dims = (2 * begin + tl.arange(0, 2 * BLOCK_N))[None, :]
                named = dims < 2 * NUM_PAIRS
                raw = tl.load(source + dims * src_dim_stride, mask=inside & named, other=0.0)
                x = raw.to(tl.float32)
                if u_ptr is not None:
                    x = add_patch(
                        x, dims, inside, named, u_rows, vt_rows, rank, num_features, BLOCK_M
                    )
                raw_a, raw_b = tl.split(tl.reshape(raw, [BLOCK_T, BLOCK_N, 2]))
                a, b = tl.split(tl.reshape(x, [BLOCK_T, BLOCK_N, 2]))
                out_a, out_b = turn(raw_a, raw_b, a, b, cos_at, sin_at, mask, rank, DST)
                out = tl.reshape(tl.join(out_a, out_b), [BLOCK_T, 2 * BLOCK_N])
                tl.store(to + dims * dst_dim_stride, out, mask=inside & named)
            else:
                dims_a, dims_b = pairs, pairs + NUM_PAIRS
                raw_a = tl.load(source + dims_a * src_dim_stride, mask=mask, other=0.0)
                raw_b = tl.load(source + dims_b * src_dim_stride, mask=mask, other=0.0)
                a, b = raw_a.to(tl.float32), raw_b.to(tl.float32)
                if u_ptr is not None:
                    a = add_patch(
                        a, dims_a, inside, named, u_rows, vt_rows, rank, num_features, BLOCK_M
                    )
                    b = add_patch(
                        b, dims_b, inside, named, u_rows, vt_rows, rank, num_features, BLOCK_M
                    )
                out_a, out_b = turn(raw_a, raw_b, a, b, cos_at, sin_at, mask, rank, DST)
                tl.store(to + dims_a * dst_dim_stride, out_a, mask=mask)
                tl.store(to + dims_b * dst_dim_stride, out_b, mask=mask)

    for begin in range(2 * NUM_PAIRS, HEAD_DIM, BLOCK_D):
        dims = (begin + tl.arange(0, BLOCK_D))[None, :]
        named = dims < HEAD_DIM
        raw = tl.load(source + dims * src_dim_stride, mask=inside & named, other=0.0)
        out = raw.to(DST)
        if u_ptr is not None:
            wide = raw.to(tl.float32)
            wide = add_patch(
                wide, dims, inside, named, u_rows, vt_rows, rank, num_features, BLOCK_M
            )
            out = tl.where(rank > 0, wide.to(DST), out)
        tl.store(to + dims * dst_dim_stride, out, mask=inside & named)


@triton.jit
@no_type_check
def turn(raw_a, raw_b, a, b, cos_at, sin_at, mask, rank, DST: tl.constexpr):
    """Pairs (a, b) turned, each rounded once; those that neither turn nor are patched keep raw's bytes."""
    cos = tl.load(cos_at, mask=mask, other=1.0)
    sin = tl.load(sin_at, mask=mask, other=0.0)
    # A pair that doesn't turn is copied: a·1 − b·0 would lose the sign of a negative zero.
    still = (cos == 1.0) & (sin == 0.0)
    out_a = tl.where(still, a, a * cos - b * sin).to(DST)
    out_b = tl.where(still, b, b * cos + a * sin).to(DST)
    if raw_a.dtype == DST:  # a NaN keeps its payload too
        kept = still & (rank == 0)
        out_a = tl.where(kept, raw_a, out_a)
        out_b = tl.where(kept, raw_b, out_b)
    return out_a, out_b


@triton.jit
@no_type_check
def add_patch(
    x,  # float32 [BLOCK_T, columns]
    dims,  # [1, columns]: which of the head's dims they are
    inside,  # [BLOCK_T, 1]: the tokens that are written
    named,  # [1, columns]: the columns that there are
    u_rows,  # [BLOCK_T, 1]: where each token's coefficients begin
    vt_rows,  # where the head's first column of the directions is
    rank,
    num_features,
    BLOCK_M: tl.constexpr,
):
    """x + u @ vt; x itself at rank 0, since x + 0 would lose the sign of a negative zero."""
    product = tl.zeros(x.shape, tl.float32)
    for begin in range(0, rank, BLOCK_M):
        m = begin + tl.arange(0, BLOCK_M)
        across, down = m[None, :], m[:, None]
        u = tl.load(u_rows + across, mask=inside & (across < rank), other=0.0)
        vt = tl.load(vt_rows + down * num_features + dims, mask=(down < rank) & named, other=0.0)
        product = tl.dot(u, vt, product, input_precision="ieee")
    return tl.where(rank > 0, x + product, x)
