"""The loops of the compiled CPU kernel: one channel of a chunk, all layers and tokens.

A layer's vt is packed once, so that a panel reads it in order. A block of tokens is computed into rows that
stay in the first-level cache. They are written out while the next block is computed, and the canonical of the
block after that is fetched: so memory is read and written in order and all the time, which is worth more than
all else (docs/lab-log.md). Nothing is annotated or checked here: Numba compiles these functions as they
stand, and finds the types itself.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import no_type_check

import numpy as np
from numba import njit

from kamera.kernels import block_code, carry_code, memory_code, plan, team_code, vector_code
from kamera.kernels.block_code import STEP_BYTES, TOKENS, block, sums_of_one
from kamera.kernels.carry_code import LINE, MOVE_BYTES, carry
from kamera.kernels.kept import kept
from kamera.kernels.memory_code import (
    copy_one,
    load_byte,
    load_one,
    load_word,
    pack_vectors,
    store_one,
    store_word,
    take,
)
from kamera.kernels.plan import Field, Kind
from kamera.kernels.team_code import in_team
from kamera.kernels.vector_code import WIDTH

W = WIDTH
LANE_BYTES = 4 * W
FLOATS = np.empty(0, np.float32)
"""The tag of float32 scratch."""

# Numba takes plain integers as constants.
KIND, LANES, BASE = int(Field.KIND), int(Field.LANES), int(Field.BASE)
TURN, FEATURE, STEP = int(Field.TURN), int(Field.FEATURE), int(Field.STEP)
ALIKE, NEXT = int(Field.ALIKE), int(Field.NEXT)
PLAIN, HALF, PAIRS = int(Kind.PLAIN), int(Kind.HALF), int(Kind.PAIRS)


def fingerprint(*sources: Path) -> str:
    """Of the files that the code is made from: Numba looks at the file of the function alone."""
    return "s" + sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


_MODULES = (vector_code, block_code, carry_code, memory_code, team_code, plan)
_SOURCES = [Path(__file__), *(Path(module.__file__) for module in _MODULES if module.__file__)]
STAMP = np.empty(0, [(fingerprint(*_SOURCES), "u1")])
"""An argument whose type is another when the code is: what was compiled before is then not taken."""


def scratch_bytes(panels: int, rank: int, num_features: int) -> tuple[int, int, int, int]:
    """Where in a thread's scratch its parts begin, and its size.

    Packed vt, u of a block, sums of one token and places of a block, rows of two blocks.
    """
    packed = panels * (rank + 1) * STEP_BYTES
    loose = packed + _whole_lines(TOKENS * 2 * (rank + 2))
    rows = loose + STEP_BYTES + _whole_lines(8 * TOKENS)
    return packed, loose, rows, rows + 2 * rows_bytes(num_features)


def rows_bytes(num_features: int) -> int:
    """Of a block's rows: room for float32 and for a vector that reads beyond the end."""
    return _whole_lines(TOKENS * 4 * num_features + MOVE_BYTES)


def _whole_lines(size: int) -> int:
    return -(-size // LINE) * LINE


@no_type_check
def share(job):
    """What one thread does: takes a layer, or some tokens of one, until none is left.

    `job`: the arguments of `write` in one tuple, from `base_tag` to `crew`.
    """
    target, (_, work, crew) = job[6], job[11:]
    num_tokens, span = work
    counters, scratch, parts = crew
    mine = scratch + parts[3] * take(counters + 8)
    spans = (num_tokens + span - 1) // span
    total = len(target[0]) * spans
    item = take(counters)
    while item < total:
        begin = (item % spans) * span
        one_layer(job, item // spans, begin, min(begin + span, num_tokens), mine)
        item = take(counters)


@no_type_check
def one_layer(job, layer, begin, end, scratch):
    """Compute and write tokens [begin, end) of a layer."""
    base_tag, out_tag, factor_tag, keeps, stream, source, target, plans, schemes, turns = job[:10]
    factors, ahead, _, crew = job[10:]
    base0, base_layer, base_row = source
    layers, rows, runs, run, strides, moves = target
    first_panel, scheme_of = schemes
    u0, vt0, ranks, u_starts, vt_starts, num_features = factors
    parts = crew[2]
    size, out_size = factor_tag.itemsize, out_tag.itemsize
    per_word = 4 // size
    loose, sums, places = scratch + parts[0], scratch + parts[1], scratch + parts[1] + STEP_BYTES
    made, before = scratch + parts[2], scratch + (parts[2] + parts[3]) // 2
    made_row = num_features * out_size
    rank, scheme = ranks[layer], scheme_of[layer]
    steps = (rank + per_word - 1) // per_word
    cos, sin, still, turn_row = (
        turns[scheme, 0],
        turns[scheme, 1],
        turns[scheme, 2],
        turns[scheme, 3],
    )
    first, last = first_panel[scheme], first_panel[scheme + 1]
    vt, plans_at = vt0 + size * vt_starts[layer], plans.ctypes.data
    for p in range(first, last if rank else first):
        to = scratch + (p - first) * steps * STEP_BYTES
        pack_vt(factor_tag, plans[p], vt, num_features, rank, to)
    lines_at, num_lines = ahead.ctypes.data, len(ahead)
    moves_at, num_moves = moves.ctypes.data, len(moves)
    layer_at, past = layers[layer], 1 if stream else 0
    a_line = (num_lines + last - first - 1) // (last - first)
    a_move = (num_moves + last - first - 1) // (last - first)
    waiting = 0  # whether a block is computed and not written
    for place in range(begin, end, TOKENS):
        # The last block begins TOKENS before the end: what it shares is computed twice, to the same values.
        start = max(min(place, end - TOKENS), begin)
        count = min(TOKENS, end - start)
        base = base0 + layer * base_layer + start * base_row
        u, u_row = u0 + size * (u_starts[layer] + start * rank), size * rank
        if u_row != 4 * steps:
            pack_u(factor_tag, u, rank, count, loose)
            u, u_row = loose, 4 * steps
        meanwhile = (
            lines_at,
            num_lines,
            a_line,
            base + TOKENS * base_row,
            moves_at,
            num_moves if waiting else 0,
            a_move,
            before,
            places,
            past,
        )
        p = first
        while p < last:
            plan_at = plans_at + 8 * NEXT * p
            alike = load_word(plan_at, ALIKE)
            packed = scratch + (p - first) * steps * STEP_BYTES
            if alike and count == TOKENS:
                words = (
                    alike,
                    plan_at,
                    base,
                    base_row,
                    made,
                    made_row,
                    cos + start * turn_row,
                    sin + start * turn_row,
                    turn_row,
                    still + start,
                    steps,
                    packed,
                    u,
                    u_row,
                    p - first,
                )
                kind = load_word(plan_at, KIND)
                whole(base_tag, out_tag, factor_tag, kind, rank > 0, words + meanwhile)
                p += alike
                continue
            for t in range(count):
                if rank:
                    sums_of_one(factor_tag, steps, packed, u + t * u_row, sums)
                turn_at = (start + t) * turn_row
                careful(
                    base_tag,
                    out_tag,
                    keeps,
                    plans[p],
                    rank > 0,
                    base + t * base_row,
                    made + t * made_row,
                    cos + turn_at,
                    sin + turn_at,
                    load_byte(still + start + t) != 0,
                    sums,
                )
            carry(p - first, meanwhile)
            p += 1
        if count < TOKENS or not num_moves:
            rows_at = rows.ctypes.data + 8 * start
            put_slowly(out_tag, made, layer_at, rows_at, count, runs, run, strides)
            continue
        for t in range(TOKENS):
            store_word(places, t, layer_at + out_size * rows[start + t])
        made, before = before, made
        waiting = 1
    if waiting:
        carry(0, (0, 0, 0, 0, moves_at, num_moves, num_moves, before, places, past))


@no_type_check
def whole(base_tag, out_tag, factor_tag, kind, patched, words):
    """A block of a whole panel."""
    if patched:
        if kind == PLAIN:
            block(base_tag, out_tag, factor_tag, 0, 1, words)
        elif kind == HALF:
            block(base_tag, out_tag, factor_tag, 1, 1, words)
        else:
            block(base_tag, out_tag, factor_tag, 2, 1, words)
    elif kind == PLAIN:
        block(base_tag, out_tag, factor_tag, 0, 0, words)
    elif kind == HALF:
        block(base_tag, out_tag, factor_tag, 1, 0, words)
    else:
        block(base_tag, out_tag, factor_tag, 2, 0, words)


@no_type_check
def put_slowly(out_tag, made, layer, rows_at, count, runs, run, strides):
    """Write a block's rows number by number: runs shorter than a vector, or dims that lie apart.

    `strides`: numbers from run to run and from dim to dim of the destination.
    """
    size = out_tag.itemsize
    for t in range(count):
        row = load_word(rows_at, t)
        for r in range(runs):
            source = made + (t * runs + r) * run * size
            to = layer + size * (row + r * strides[0])
            for d in range(run):
                copy_one(out_tag, source + size * d, to + size * d * strides[1])


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
    base_tag, out_tag, keeps, plan, patched, base, out, cos, sin, still, sums,
):  # fmt: skip
    """One token of one panel, number by number: few lanes or tokens."""
    b_size, o_size = base_tag.itemsize, out_tag.itemsize
    kind = plan[KIND]
    width = 2 if kind == PAIRS else 1
    for j in range(4 if kind == PLAIN else 2):
        k = j if kind == PLAIN else 2 + j
        for lane in range(plan[LANES]):
            first = base + plan[BASE + j] + b_size * width * lane
            second = base + plan[BASE + k] + b_size * width * lane
            to_first = out + o_size * (plan[FEATURE + j] + width * lane)
            to_second = out + o_size * (plan[FEATURE + k] + width * lane)
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
pack_vt, pack_u, careful, whole = njit(pack_vt), njit(pack_u), njit(careful), njit(whole)
put_slowly, one_layer = njit(put_slowly), njit(one_layer)
together = in_team(share)


@no_type_check
def write(
    stamp, base_tag, out_tag, factor_tag, keeps, stream, source, target, plans, schemes, turns, factors,
    ahead, work, crew, team,
):  # fmt: skip
    """Compute and write one channel: all layers, all tokens.

    Args:
        stamp: `STAMP`.
        base_tag, out_tag, factor_tag: empty arrays of the numeric formats; uint16 is bfloat16, int16 float16.
        keeps: whether canonical and destination have the same format.
        stream: write past the cache; every vector of the destination is then aligned to its size.
        source: address of the canonical's first written token, bytes from layer to layer and from token
            to token.
        target: address of each layer's destination [L], offset of each token in it in numbers [T]; how many
            runs of how many features a token's numbers are there; numbers from run to run and from dim to
            dim; a block's moves (`carry_code`), none where runs are shorter or dims lie apart.
        plans: [panels, Field.NEXT], those of all schemes.
        schemes: first panel of each scheme [S + 1], scheme of each layer [L].
        turns: [S, 4]: addresses of the cosines, the sines and the still flags, bytes from token to token.
        factors: addresses of u and vt, rank of each layer, first number of each layer in u and in vt [L], F.
        ahead: offsets from a block's canonical of its cache lines, in the order in which they lie.
        work: T, tokens that a thread takes at a time.
        crew: address of two zeros, which the threads count in; address of `scratch_bytes` for each of them;
            where its parts begin.
        team: address of the runtime's `GOMP_parallel`, or 0; number of threads.
    """
    job = (
        base_tag, out_tag, factor_tag, keeps, stream, source, target, plans, schemes, turns, factors,
        ahead, work, crew,
    )  # fmt: skip
    together(team[0], team[1], job)


write = kept(write)
