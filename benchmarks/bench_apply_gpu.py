"""How far is relocate + patch + write into a paged pool from the GPU's own copy of the same bytes?

Compared: the Triton kernel at ranks 0 (relocation alone), 8, 16, 32 and 64, and the eager reference at rank
32, for GQA, MHA and MLA, a chunk of 4096 tokens in bfloat16 with bfloat16 factors.
Ceiling: a device-to-device copy of the same KV bytes: as many are read and written.

Only where PyTorch sees a CUDA or ROCm device and Triton is installed; elsewhere it says so and ends. No
figure of it is in our documentation: it hasn't been run on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import torch

from harness import aim, finish, measure, ratio, read_options, row
from kamera.channels import ChunkKV
from kamera.kernels import Eager, Kernel, Pages, Placement
from kamera.patch import Factors, Patch
from kamera.rope import RopeSpec

RANKS = (0, 8, 16, 32, 64)
NUM_TOKENS, BLOCK_SIZE = 4096, 16
CALLS = 10
"""Of each arm in one sample: a launch costs microseconds, and so does waiting for the device."""
FAMILIES: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {
    "gqa": (28, {"k": (4, 128), "v": (4, 128)}),
    "mha": (16, {"k": (16, 128), "v": (16, 128)}),
    "mla": (27, {"c_kv": (1, 512), "k_pe": (1, 64)}),
}
"""Layers and channels of Qwen2.5-VL-7B, of an MHA model of 16 layers, of Kimi-VL-A3B."""


def why_not() -> str | None:
    """Why this can't run here."""
    if not torch.cuda.is_available():
        return "PyTorch sees no CUDA or ROCm device"
    return None if find_spec("triton") else "Triton isn't installed"


def placement(family: str, rank: int) -> Placement:
    """A chunk of random numbers and its patch, on the device."""
    num_layers, shapes = FAMILIES[family]
    draw = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    kv = {name: draw(num_layers, NUM_TOKENS, *shape) for name, shape in shapes.items()}
    factors = {
        name: Factors(draw(num_layers, NUM_TOKENS, rank), draw(num_layers, rank, heads * dim))
        for name, (heads, dim) in shapes.items()
        if rank
    }
    dim = shapes["k_pe" if family == "mla" else "k"][1]
    frequencies = 1e6 ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    rope = RopeSpec(tuple(frequencies.tolist()), (0,) * (dim // 2), 1, dim)
    positions = torch.arange(NUM_TOKENS, device="cuda")[:, None] + 777
    return Placement(ChunkKV(kv), Patch(factors, "a") if rank else None, positions, rope)


def pool(family: str) -> dict[str, Pages]:
    """Twice as many slots as tokens, the chunk's blocks in no order."""
    num_layers, shapes = FAMILIES[family]
    num_blocks = 2 * NUM_TOKENS // BLOCK_SIZE
    blocks = torch.randperm(num_blocks, device="cuda")[: NUM_TOKENS // BLOCK_SIZE]
    slots = (blocks[:, None] * BLOCK_SIZE + torch.arange(BLOCK_SIZE, device="cuda")).flatten()
    size = sum(heads * dim for heads, dim in shapes.values())
    memory = [
        torch.zeros(num_blocks, BLOCK_SIZE, size, device="cuda", dtype=torch.bfloat16)
        for _ in range(num_layers)
    ]
    pages, at = {}, 0
    for name, (heads, dim) in shapes.items():
        part = slice(at, at + heads * dim)
        views = [layer[..., part].unflatten(-1, (heads, dim)) for layer in memory]
        pages[name] = Pages(views, slots)
        at += heads * dim
    return pages


def repeated(call: Callable[[], Any]) -> Callable[[], None]:
    """`CALLS` calls and a wait for the device."""

    def run() -> None:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()

    return run


def copying(kv: Mapping[str, torch.Tensor]) -> Callable[[], None]:
    """The ceiling."""
    copies = {name: torch.empty_like(tensor) for name, tensor in kv.items()}

    def copy() -> None:
        for name, tensor in kv.items():
            copies[name].copy_(tensor)

    return copy


def arms(family: str, kernel: Kernel) -> dict[str, Callable[[], None]]:
    """The copy, the kernel at each rank, the reference."""
    pages = pool(family)
    placements = {rank: placement(family, rank) for rank in RANKS}
    return {
        "memcpy": repeated(copying(placements[0].canonical.tensors)),
        **{
            f"rank {rank}": repeated(partial(kernel.write, placements[rank], pages))
            for rank in RANKS
        },
        "eager, rank 32": repeated(partial(Eager().write, placements[32], pages)),
    }


def main() -> None:
    options = read_options(__doc__)
    reason = why_not()
    if reason is not None:
        finish("apply_gpu", {"skipped": reason, "rows": [], "aims": []}, options.out)
        return
    from kamera.kernels.triton_apply import TritonKernel

    rows, aims = [], []
    for family in FAMILIES:
        timings = measure(arms(family, TritonKernel()), 5 if options.short else 30, warmup=3)
        ceiling = ("memcpy", timings["memcpy"])
        facts = {"family": family, "num_tokens": NUM_TOKENS, "calls": CALLS}
        rows += [row(f"{family}, {n}", t, ceiling, **facts) for n, t in timings.items()]
        over = {rank: ratio(timings[f"rank {rank}"], timings["memcpy"]) for rank in RANKS}
        aims += [
            aim(f"{family}: rank {rank} over memcpy", over[rank], at_most=1.3) for rank in RANKS
        ]
    device = {"device": torch.cuda.get_device_name(), "triton": metadata.version("triton")}
    finish("apply_gpu", {**device, "rows": rows, "aims": aims}, options.out)


if __name__ == "__main__":
    main()
