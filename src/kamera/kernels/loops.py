"""The loops of the compiled CPU kernel: one channel of a chunk, all layers, a range of its tokens.

For each layer the panels of vt are packed once, so that a block reads them in order. Then a tile of tokens is
taken through all panels before the next one: its canonical is read from memory once, and fetched while the
one before is computed. Nothing is annotated
or checked here: Numba compiles these functions as they stand, and finds the types itself.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import no_type_check

import numpy as np
from numba import njit

from kamera.kernels import plan
from kamera.kernels import vector_code as vc
from kamera.kernels.kept import kept
from kamera.kernels.plan import Field, Kind
from kamera.kernels.vector_code import (
    copy_one,
    load_byte,
    load_one,
    load_word,
    pack_vectors,
    store_one,
    sums_of_one,
    tile,
)

MAX_RANK = 768
"""What the scratch is made for: one panel of vt, and a tile of u."""
PACKED_BYTES = 192 * 1024
"""Of vt that are packed at a time: they stay in the second-level cache beside a tile."""
TOKENS = vc.TOKENS
TILE = AHEAD = 4 * TOKENS
"""Tokens of a tile, and how far ahead the canonical is fetched: measured on Zen 4."""
W = vc.WIDTH
LANE_BYTES = 4 * W
STEP_BYTES = 4 * LANE_BYTES
LOOSE_BYTES = TILE * (2 * MAX_RANK + 4)
"""For u of a tile with an odd number of bfloat16 in a row."""
SCRATCH_BYTES = PACKED_BYTES + LOOSE_BYTES + STEP_BYTES
FLOATS = np.empty(0, np.float32)
"""The tag of float32 scratch."""

# Numba takes plain integers as constants.
KIND, LANES, BASE, OUT = int(Field.KIND), int(Field.LANES), int(Field.BASE), int(Field.OUT)
TURN, FEATURE, STEP = int(Field.TURN), int(Field.FEATURE), int(Field.STEP)
ALIKE, NEXT = int(Field.ALIKE), int(Field.NEXT)
PLAIN, HALF, PAIRS = int(Kind.PLAIN), int(Kind.HALF), int(Kind.PAIRS)


def fingerprint(*sources: Path) -> str:
    """Of the files that the code is made from: Numba looks at the file of the function alone."""
    return "s" + sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


STAMP = np.empty(0, [(fingerprint(Path(__file__), Path(vc.__file__), Path(plan.__file__)), "u1")])
"""An argument whose type is another when the code is: what was compiled before is then not taken."""


@no_type_check
def write(
    stamp,
    base_tag,
    out_tag,
    factor_tag,
    keeps,
    stream,
    source,
    target,
    plans,
    schemes,
    turns,
    factors,
    span,
    scratch,
):
    """Compute and write tokens [begin, end) of one channel in every layer.

    Args:
        stamp: `STAMP`.
        base_tag, out_tag, factor_tag: empty arrays of the numeric formats; uint16 is bfloat16, int16 float16.
        keeps: whether canonical and destination have the same format.
        stream: write past the cache; every vector of the destination is then aligned to its size.
        source: address of the canonical's first written token, bytes from layer to layer and from token
            to token.
        target: address of each layer's destination [L], offset of each token in it in numbers [T], numbers
            from dim to dim.
        plans: [panels, Field.NEXT], those of all schemes.
        schemes: first panel of each scheme [S + 1], scheme of each layer [L].
        turns: [S, 4]: addresses of the cosines, the sines and the still flags, bytes from token to token.
        factors: addresses of u and vt, rank of each layer, first number of each layer in u and in vt [L], F.
        span: begin, end.
        scratch: address of SCRATCH_BYTES bytes that no other thread uses.
    """
    base0, base_layer, base_row = source
    layers, rows, dim = target
    first_panel, scheme_of = schemes
    u0, vt0, ranks, u_starts, vt_starts, num_features = factors
    begin, end = span
    size, out_size = factor_tag.itemsize, out_tag.itemsize
    per_word = 4 // size
    packed, loose, sums = scratch, scratch + PACKED_BYTES, scratch + PACKED_BYTES + LOOSE_BYTES
    rows_at, plans_at = rows.ctypes.data, plans.ctypes.data
    for layer in range(len(layers)):
        rank, scheme = ranks[layer], scheme_of[layer]
        steps = (rank + per_word - 1) // per_word
        cos, sin, still, turn_row = (
            turns[scheme, 0],
            turns[scheme, 1],
            turns[scheme, 2],
            turns[scheme, 3],
        )
        at_once = PACKED_BYTES // (max(steps, 1) * STEP_BYTES)
        last = first_panel[scheme + 1]
        for strip in range(first_panel[scheme], last, at_once):
            strip_end = min(strip + at_once, last)
            vt = vt0 + size * vt_starts[layer]
            for p in range(strip, strip_end if rank else strip):
                to = packed + (p - strip) * steps * STEP_BYTES
                pack_vt(factor_tag, plans[p], vt, num_features, rank, to)
            for start in range(begin, end, TILE):
                stop = min(start + TILE, end)
                u, u_row = u0 + size * (u_starts[layer] + start * rank), size * rank
                if u_row != 4 * steps:
                    pack_u(factor_tag, u, rank, stop - start, loose)
                    u, u_row = loose, 4 * steps
                p = strip
                while p < strip_end:
                    plan_at = plans_at + 8 * NEXT * p
                    alike = min(load_word(plan_at, ALIKE), strip_end - p)
                    columns = packed + (p - strip) * steps * STEP_BYTES
                    if alike and dim == 1 and stop - start >= TOKENS:
                        words = (
                            alike,
                            stop - start,
                            plan_at,
                            base0 + layer * base_layer + start * base_row,
                            base_row,
                            AHEAD * base_row,
                            layers[layer],
                            rows_at + 8 * start,
                            cos + start * turn_row,
                            sin + start * turn_row,
                            turn_row,
                            still + start,
                            steps,
                            columns,
                            u,
                            u_row,
                        )
                        kind = load_word(plan_at, KIND)
                        if stream:
                            streamed(base_tag, out_tag, factor_tag, kind, rank > 0, words)
                        else:
                            cached(base_tag, out_tag, factor_tag, kind, rank > 0, words)
                        p += alike
                        continue
                    for t in range(start, stop):
                        if rank:
                            sums_of_one(factor_tag, steps, columns, u + (t - start) * u_row, sums)
                        careful(
                            base_tag,
                            out_tag,
                            keeps,
                            plans[p],
                            rank > 0,
                            base0 + layer * base_layer + t * base_row,
                            layers[layer] + out_size * rows[t],
                            dim,
                            cos + t * turn_row,
                            sin + t * turn_row,
                            load_byte(still + t) != 0,
                            sums,
                        )
                    p += 1


@no_type_check
def cached(base_tag, out_tag, factor_tag, kind, patched, words):
    """A tile of whole panels of one kind, written through the cache."""
    if patched:
        if kind == PLAIN:
            tile(base_tag, out_tag, factor_tag, 0, 1, 0, words)
        elif kind == HALF:
            tile(base_tag, out_tag, factor_tag, 1, 1, 0, words)
        else:
            tile(base_tag, out_tag, factor_tag, 2, 1, 0, words)
    elif kind == PLAIN:
        tile(base_tag, out_tag, factor_tag, 0, 0, 0, words)
    elif kind == HALF:
        tile(base_tag, out_tag, factor_tag, 1, 0, 0, words)
    else:
        tile(base_tag, out_tag, factor_tag, 2, 0, 0, words)


@no_type_check
def streamed(base_tag, out_tag, factor_tag, kind, patched, words):
    """A tile of whole panels of one kind, written past the cache."""
    if patched:
        if kind == PLAIN:
            tile(base_tag, out_tag, factor_tag, 0, 1, 1, words)
        elif kind == HALF:
            tile(base_tag, out_tag, factor_tag, 1, 1, 1, words)
        else:
            tile(base_tag, out_tag, factor_tag, 2, 1, 1, words)
    elif kind == PLAIN:
        tile(base_tag, out_tag, factor_tag, 0, 0, 1, words)
    elif kind == HALF:
        tile(base_tag, out_tag, factor_tag, 1, 0, 1, words)
    else:
        tile(base_tag, out_tag, factor_tag, 2, 0, 1, words)


@no_type_check
def pack_vt(factor_tag, plan, vt, num_features, rank, to):
    """vt of one panel, step by step the four vectors of W lanes; lanes that don't count are zero."""
    size, pairs = factor_tag.itemsize, factor_tag.itemsize == 2
    row = size * num_features
    for j in range(4):
        feature, step = plan[FEATURE + j], plan[STEP]
        whole = 0
        if step == 1 and plan[LANES] == W:
            whole = rank - (rank & 1) if pairs else rank
            here = vt + size * feature
            for m in range(0, whole, 2 if pairs else 1):
                place = to + (m // 2 if pairs else m) * STEP_BYTES + j * LANE_BYTES
                pack_vectors(factor_tag, here + m * row, here + (m + 1) * row, place)
        for lane in range(W):
            here = vt + size * (feature + lane * step)
            counts = lane < plan[LANES]
            for m in range(whole, rank + (rank & 1) if pairs else rank):
                place = to + (m // 2 if pairs else m) * STEP_BYTES + j * LANE_BYTES + 4 * lane
                place += 2 * (m & 1) if pairs else 0
                if counts and m < rank:
                    copy_one(factor_tag, here + m * row, place)
                else:
                    store_one(factor_tag, place, 0.0)


@no_type_check
def pack_u(factor_tag, u, rank, num_tokens, to):
    """Rows of an odd number of bfloat16, each with a zero behind it."""
    for t in range(num_tokens):
        for m in range(rank):
            copy_one(factor_tag, u + 2 * (t * rank + m), to + 2 * (t * (rank + 1) + m))
        store_one(factor_tag, to + 2 * (t * (rank + 1) + rank), 0.0)


@no_type_check
def careful(
    base_tag,
    out_tag,
    keeps,
    plan,
    patched,
    base,
    out,
    dim,
    cos,
    sin,
    still,
    sums,
):
    """One token of one panel, number by number: few lanes or tokens, or dims that lie apart."""
    b_size, o_size = base_tag.itemsize, out_tag.itemsize
    kind = plan[KIND]
    for j in range(4 if kind == PLAIN else 2):
        k = j if kind == PLAIN else 2 + j
        width = 2 if kind == PAIRS else 1
        for lane in range(plan[LANES]):
            first = base + plan[BASE + j] + b_size * width * lane
            to_first = out + o_size * (plan[OUT + j] + width * lane * dim)
            second, to_second = first + b_size, to_first + o_size * dim
            if kind == HALF:
                second = base + plan[BASE + k] + b_size * lane
                to_second = out + o_size * (plan[OUT + k] + lane * dim)
            if keeps and not patched and (still or kind == PLAIN):
                copy_one(base_tag, first, to_first)
                if kind != PLAIN:
                    copy_one(base_tag, second, to_second)
                continue
            a = load_one(base_tag, first)
            if patched:
                a += load_one(FLOATS, sums + j * LANE_BYTES + 4 * lane)
            if kind == PLAIN:
                store_one(out_tag, to_first, a)
                continue
            c = load_one(base_tag, second)
            if patched:
                c += load_one(FLOATS, sums + k * LANE_BYTES + 4 * lane)
            if not still:
                x = load_one(FLOATS, cos + 4 * (plan[TURN + j] + lane))
                y = load_one(FLOATS, sin + 4 * (plan[TURN + j] + lane))
                a, c = a * x - c * y, c * x + a * y
            store_one(out_tag, to_first, a)
            store_one(out_tag, to_second, c)


# Not kept by themselves: what they compile to is part of what `write` compiles to.
pack_vt, pack_u, careful = njit(pack_vt), njit(pack_u), njit(careful)
cached, streamed = njit(cached), njit(streamed)
write = kept(write)
