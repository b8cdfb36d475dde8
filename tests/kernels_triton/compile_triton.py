"""Compile the Triton kernel for GPUs that aren't here, and print what the compiler says as JSON.

    python tests/kernels_triton/compile_triton.py

The compiler needs no device: it is Triton's own, with the assembler that comes with it.
"""

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kamera.kernels.triton_apply import Tile
from kamera.kernels.triton_tile import LAYER_COLUMNS, apply_tile

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
HALF = {"dim": 128, "num_pairs": 64, "rank": 64}
VARIANTS: dict[str, dict[str, Any]] = {
    "keys": HALF,
    "keys, float32 factors": {**HALF, "factors": "fp32"},
    "keys, no patch": {**HALF, "factors": None},
    "keys, contiguous": {**HALF, "slots": None},
    "keys, interleaved": {**HALF, "paired": True},
    "keys, partial": {**HALF, "num_pairs": 16},
    "values": {**HALF, "num_pairs": 0},
    "latents": {"dim": 512, "num_pairs": 0, "rank": 64},
    "float32 throughout": {**HALF, "cache": "fp32", "factors": "fp32"},
}
DTYPES = {"bf16": tl.bfloat16, "fp32": tl.float32}


def compiled(
    target: GPUTarget,
    *,
    dim: int,
    num_pairs: int,
    rank: int,
    cache: str = "bf16",
    factors: str | None = "bf16",
    slots: str | None = "*i64",
    paired: bool = False,
) -> Any:
    """The kernel as a launch at these sizes would specialise it: aligned rows, dims side by side."""
    tensors = {
        "src_ptr": f"*{cache}",
        "layers_ptr": "*i64",
        "slots_ptr": slots,
        "u_ptr": factors and f"*{factors}",
        "vt_ptr": factors and f"*{factors}",
        "cos_ptr": "*fp32" if num_pairs else None,
        "sin_ptr": "*fp32" if num_pairs else None,
    }
    constants = {
        **{name: None for name, kind in tensors.items() if kind is None},
        **{"src_dim_stride": 1, "dst_dim_stride": 1, "DST": DTYPES[cache], "DST_ALIGN": 16},
        **{"RANK_ALIGN": 16, "COLUMNS": LAYER_COLUMNS, "HEAD_DIM": dim, "NUM_PAIRS": num_pairs},
        **{"PAIRED": paired, **Tile.of(1024, dim, num_pairs, rank).constants()},
    }
    signature, divisible = {}, {}
    for index, name in enumerate(apply_tile.arg_names):
        signature[name] = "constexpr" if name in constants else tensors.get(name, "i32")
        if signature[name] != "constexpr" and name not in ("num_tokens", "skip"):
            divisible[(index,)] = [["tt.divisibility", 16]]
    where = {(apply_tile.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(apply_tile, signature, constexprs=where, attrs=divisible)
    return triton.compile(source, target=target)


def facts(kernel: Any) -> dict[str, Any]:
    """What the code is: its widest accesses, tensor-core instructions, registers and spills."""
    if "ptx" not in kernel.asm:
        return {"bytes": len(kernel.asm["hsaco"])}
    ptx = kernel.asm["ptx"]
    return {
        "wide_loads": len(re.findall(r"ld\.global[.\w:]*\.v4\.b32", ptx)),
        "wide_stores": len(re.findall(r"st\.global[.\w:]*\.v4\.b32", ptx)),
        "narrow_stores": len(re.findall(r"st\.global[.\w:]*\.b16", ptx)),
        "tensor_cores": bool(re.search(r"\b(wg)?mma[._]", ptx)),
        **usage(kernel.asm["cubin"]),
    }


def usage(cubin: bytes) -> dict[str, int]:
    """Registers of a thread, and bytes that it spills, as cuobjdump reads them."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [str(tool), "-res-usage", str(path)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {key: int(re.search(rf"\b{key}:(\d+)", text)[1]) for key in ("REG", "STACK", "LOCAL")}
    return {"registers": found["REG"], "spilled": found["STACK"] + found["LOCAL"]}


if __name__ == "__main__":
    report = {
        name: {what: facts(compiled(target, **sizes)) for what, sizes in VARIANTS.items()}
        for name, target in TARGETS.items()
    }
    print(json.dumps(report))
