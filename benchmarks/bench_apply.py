"""How far is relocate + patch + write from copying the same KV?

Compared, one chunk of 1024 tokens: this process's kernels (`eager` is the reference, `blocked` plain torch in
blocks, `numba` the compiled one) at ranks 0 to 64; GQA as Qwen2.5-VL-7B, MHA as a 7B LLaVA with fewer layers,
MLA as Kimi-VL; caches in bfloat16 and float32; factors in bfloat16 and float32; one thread and two.
Ceilings: `torch.copy_` of the same KV bytes (as many are read and written, out of cache, same threads), and
the time that the rank-m product takes at the best matrix product that torch reaches here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from harness import Row, aim, finish, measure, ratio, read_options, row
from kamera.channels import ChunkKV
from kamera.kernels import Placement, kernel, warm_up
from kamera.kernels.select import available
from kamera.patch import Factors, Patch
from kamera.rope import RopeSpec

NUM_TOKENS = 1024
RANKS = (0, 4, 8, 16, 32, 64)
WHY = (
    "limit: the product alone at torch's best matrix product, or the copy; rounding, turning and the "
    "patch's own bytes come on top"
)
COPIES = 3
"""Chunks that are taken in turns, so that none is in the cache when its turn comes."""


@dataclass(frozen=True)
class Geometry:
    """A model's layers and channels."""

    name: str
    num_layers: int
    channels: dict[str, tuple[int, int]]

    @property
    def numbers(self) -> int:
        """Of one chunk."""
        return self.num_layers * NUM_TOKENS * sum(h * d for h, d in self.channels.values())

    @cached_property
    def rope(self) -> RopeSpec:
        """All dims of the channel that rotates."""
        dim = self.channels["k_pe" if "k_pe" in self.channels else "k"][1]
        frequencies = 1e6 ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        return RopeSpec(tuple(frequencies.tolist()), (0,) * (dim // 2), 1, dim)


GQA = Geometry("GQA", 28, {"k": (4, 128), "v": (4, 128)})
MHA = Geometry("MHA", 8, {"k": (32, 128), "v": (32, 128)})
MLA = Geometry("MLA", 27, {"c_kv": (1, 512), "k_pe": (1, 64)})


class Case:
    """One geometry and cache dtype: canonicals, destinations, patches."""

    def __init__(self, geometry: Geometry, dtype: torch.dtype) -> None:
        self.geometry, self.dtype, self.turn = geometry, dtype, 0
        shapes = {n: (geometry.num_layers, NUM_TOKENS, *s) for n, s in geometry.channels.items()}
        self.chunks = [
            ChunkKV({n: torch.randn(s).to(dtype) for n, s in shapes.items()}) for _ in range(COPIES)
        ]
        self.outs = [
            {n: torch.zeros(s, dtype=dtype) for n, s in shapes.items()} for _ in range(COPIES)
        ]
        self.positions = torch.arange(NUM_TOKENS)[:, None] + 777

    @property
    def kv_bytes(self) -> int:
        """Of one chunk."""
        return self.chunks[0].num_bytes

    def next(self) -> tuple[ChunkKV, dict[str, torch.Tensor]]:
        """The chunk and the destination that were used longest ago."""
        self.turn = (self.turn + 1) % COPIES
        return self.chunks[self.turn], self.outs[self.turn]

    def copy(self) -> None:
        """The memory's ceiling."""
        chunk, out = self.next()
        for name, tensor in chunk.tensors.items():
            out[name].copy_(tensor)

    def apply(self, name: str, patch: Patch | None) -> Callable[[], None]:
        """One serve step by a kernel."""
        chosen = kernel(name)

        def run() -> None:
            chunk, out = self.next()
            chosen.write(Placement(chunk, patch, self.positions, self.geometry.rope), out)

        return run

    def patch(self, rank: int, dtype: torch.dtype) -> Patch | None:
        """Random factors."""
        if not rank:
            return None
        layers = self.geometry.num_layers
        factors = {}
        for name, (heads, dim) in self.geometry.channels.items():
            u = torch.randn(layers, NUM_TOKENS, rank).to(dtype)
            factors[name] = Factors(u, torch.randn(layers, rank, heads * dim).to(dtype))
        return Patch(factors, "a")


def flops_per_second(dtype: torch.dtype) -> float:
    """The best of some large matrix products in this dtype, with torch's threads."""
    a, b = torch.randn(1536, 1536).to(dtype), torch.randn(1536, 1536).to(dtype)
    best = float("inf")
    for _ in range(6):
        begun = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - begun)
    return 2 * 1536**3 / best


def compare(
    geometry: Geometry, dtype: torch.dtype, ranks: tuple[int, ...], threads: int, repeats: int
) -> tuple[list[Row], dict[str, float]]:
    """Rows of every kernel, rank and factor dtype; the ratios to the copy by the arm's name."""
    torch.set_num_threads(threads)
    case = Case(geometry, dtype)
    warm_up(dtype)
    peak = {d: flops_per_second(d) for d in (torch.bfloat16, torch.float32)}
    arms: dict[str, Callable[[], Any]] = {"copy": case.copy}
    facts: dict[str, dict[str, Any]] = {"copy": {}}
    for rank in ranks:
        for factors in (torch.bfloat16, torch.float32):
            if not rank and factors is torch.float32:
                continue
            patch = case.patch(rank, factors)
            for name in available():
                slow = name != "numba"  # compared at three ranks, that all of it ends in time
                if slow and rank and (rank not in (8, 32) or factors is not torch.float32):
                    continue
                arm = f"{name}, rank {rank}, {_short(factors)}" if rank else f"{name}, rank 0"
                arms[arm] = case.apply(name, patch)
                facts[arm] = {
                    "kernel": name,
                    "rank": rank,
                    "factors": _short(factors),
                    "product_s": 2 * rank * geometry.numbers / peak[factors],
                }
    timings = measure(arms, repeats, warmup=1)
    common = {
        "geometry": geometry.name, "layers": geometry.num_layers, "cache": _short(dtype),
        "threads": threads, "kv_bytes": case.kv_bytes,
    }  # fmt: skip
    where = f"{geometry.name}, {_short(dtype)}, {threads} threads: "
    ceiling = (where + "copy", timings["copy"])
    rows = [row(where + n, t, ceiling, **common, **facts[n]) for n, t in timings.items()]
    return rows, {name: ratio(t, timings["copy"]) for name, t in timings.items()}


def _short(dtype: torch.dtype) -> str:
    return {torch.bfloat16: "bf16", torch.float32: "f32"}[dtype]


def main() -> None:
    options = read_options(__doc__)
    repeats = 5 if options.short else 15
    most = options.threads
    plan = [(GQA, torch.bfloat16, RANKS, most)]
    if not options.short:
        plan += [(GQA, torch.bfloat16, RANKS, 1)] if most > 1 else []
        plan += [(g, torch.bfloat16, (0, 8, 32), most) for g in (MHA, MLA)]
        plan += [(g, torch.float32, (0, 8, 32), most) for g in (GQA, MLA)]
    rows: list[Row] = []
    aims = []
    for geometry, dtype, ranks, threads in plan:
        found, ratios = compare(geometry, dtype, ranks, threads, repeats)
        rows += found
        if dtype is torch.bfloat16:
            aims += _aims(geometry, threads, ratios, found)
    finish("apply", {"tokens": NUM_TOKENS, "rows": rows, "aims": aims}, options.out)


def _aims(geometry: Geometry, threads: int, ratios: dict[str, float], rows: list[Row]) -> list[Row]:
    """What issue and design ask of bf16 caches: 1.5 copies at rank 8, 2.5 at rank 32."""
    best = available()[-1]
    made = []
    for rank, bound in ((8, 1.5), (32, 2.5)):
        name = f"{best}, rank {rank}, bf16"
        (one,) = (r for r in rows if r["name"].endswith(": " + name)) if name in ratios else (None,)
        if one is None:
            continue
        text = f"{geometry.name}, {threads} threads, rank {rank}: bf16 apply over copy"
        limit = max(1.0, one["product_s"] / one["ceiling_s"])
        made.append(aim(text, ratios[name], at_most=bound, limit=limit, why=WHY))
    return made


if __name__ == "__main__":
    main()
