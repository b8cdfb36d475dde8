"""The plan of a channel: which numbers of a token's row the four vectors of each panel are.

Pure integers. A panel takes 4W numbers of one row: four runs, or two runs of first members of rotated pairs
with the two runs of their second members, so that a panel turns by itself. Runs may overlap: what doesn't
divide by W is computed twice, to the same values, rather than number by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kamera.rope import RopeSpec


class Kind(IntEnum):
    """How the four vectors of a panel belong together."""

    PLAIN = 0  # four runs of W numbers, not rotated
    HALF = 1  # two runs of first members, then the two runs of their second members
    PAIRS = 2  # two runs of 2W numbers, first and second members in turn


class Field(IntEnum):
    """Columns of a plan: one row a panel."""

    KIND = 0
    LANES = 1  # lanes that count, W or fewer
    BASE = 2  # four: byte offset of a vector in a token's canonical row
    TURN = 6  # two: offset of the cosines of a vector pair, in numbers
    FEATURE = 8  # four: first feature of a vector, h · D + d
    STEP = 12  # features from lane to lane
    ALIKE = 13  # panels from here on that are of one kind and whole
    NEXT = 14  # columns


@dataclass(frozen=True)
class Row:
    """How a token's [H, D] numbers lie in the canonical: bytes from head to head and from dim to dim."""

    heads: int
    dim: int
    base_head: int
    base_dim: int

    @property
    def is_flat(self) -> bool:
        """Whether the heads follow each other without a gap."""
        return self.base_head == self.dim * self.base_dim


@lru_cache(maxsize=256)
def panels(row: Row, spec: RopeSpec | None, width: int) -> NDArray[np.int64]:
    """[panels, Field.NEXT] for vectors of `width` lanes; `spec` is None for a channel that doesn't rotate."""
    if spec is None:
        heads, dim = (1, row.heads * row.dim) if row.is_flat else (row.heads, row.dim)
        runs = [(h, d, n) for h in range(heads) for d, n in _runs(0, dim, width)]
        return _counted(_plain(row, runs, width), width)
    rotated = _turned(row, spec, width)
    rest = [(h, d, n) for h in range(row.heads) for d, n in _runs(spec.rotary_dim, row.dim, width)]
    return _counted(np.concatenate([rotated, _plain(row, rest, width)]), width)


def _runs(start: int, end: int, width: int) -> list[tuple[int, int]]:
    """(first, lanes) of runs that cover [start, end): whole ones, the last overlapping, or one short one."""
    if end - start < width:
        return [(start, end - start)] if end > start else []
    firsts = [*range(start, end - width + 1, width)]
    if firsts[-1] + width < end:
        firsts.append(end - width)
    return [(first, width) for first in firsts]


def _plain(row: Row, runs: list[tuple[int, int, int]], width: int) -> NDArray[np.int64]:
    rows = []
    for group in _groups(runs, 4):
        base = [h * row.base_head + d * row.base_dim for h, d, _ in group]
        feature = [h * row.dim + d for h, d, _ in group]
        rows.append([Kind.PLAIN, group[0][2], *base, 0, 0, *feature, 1, 0])
    return np.array(rows, dtype=np.int64).reshape(-1, Field.NEXT)


def _turned(row: Row, spec: RopeSpec, width: int) -> NDArray[np.int64]:
    rows = []
    pairs = [(h, i, n) for h in range(row.heads) for i, n in _runs(0, spec.num_pairs, width)]
    for group in _groups(pairs, 2):
        if spec.layout == "pairs":
            dims = [(h, 2 * i) for h, i, _ in group] + [(h, 2 * i + 1) for h, i, _ in group]
        else:
            dims = [(h, i) for h, i, _ in group] + [(h, spec.num_pairs + i) for h, i, _ in group]
        base = [h * row.base_head + d * row.base_dim for h, d in dims]
        feature = [h * row.dim + d for h, d in dims]
        kind, step = (Kind.PAIRS, 2) if spec.layout == "pairs" else (Kind.HALF, 1)
        turn = [i for _, i, _ in group]
        rows.append([kind, group[0][2], *base, *turn, *feature, step, 0])
    return np.array(rows, dtype=np.int64).reshape(-1, Field.NEXT)


def _groups(runs: list[tuple[int, int, int]], size: int) -> list[list[tuple[int, int, int]]]:
    """Groups of `size` runs of as many lanes; one that is short repeats its last run."""
    groups = []
    for lanes in sorted({n for _, _, n in runs}, reverse=True):
        alike = [run for run in runs if run[2] == lanes]
        for start in range(0, len(alike), size):
            group = alike[start : start + size]
            groups.append([*group, *[group[-1]] * (size - len(group))])
    return groups


def _counted(rows: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Say of each panel how many alike stand together from it on; 0 for one that isn't whole."""
    for index in range(len(rows) - 1, -1, -1):
        if rows[index, Field.LANES] == width:
            behind = (
                index + 1 < len(rows) and rows[index + 1, Field.KIND] == rows[index, Field.KIND]
            )
            rows[index, Field.ALIKE] = 1 + (rows[index + 1, Field.ALIKE] if behind else 0)
    return rows
