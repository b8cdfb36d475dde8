"""Which kernels this process uses: chosen once, by what is installed, or by KAMERA_KERNEL."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec

import torch

from kamera.channels import ChunkKV
from kamera.errors import ConfigError
from kamera.kernels.blocked import Blocked
from kamera.kernels.contract import Destination, Kernel, Placement
from kamera.kernels.eager import Eager
from kamera.patch import Factors, Patch
from kamera.rope import Rope, RopeSpec
from kamera.shapes import Positions

VARIABLE = "KAMERA_KERNEL"
"""The environment variable that names a kernel."""
NAMES = ("eager", "blocked", "numba", "triton")
_SOURCES = {
    "numba": "install kamera-kv[fast]",
    "triton": "it comes with PyTorch's GPU builds",
}

logger = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def select() -> Kernel:
    """The kernel of this process; the first call decides.

    `triton` where there is an accelerator and Triton, else `for_cpu`. One that can't be loaded is logged, and
    `for_cpu` takes its place. What a kernel doesn't take goes to another: see `write`.

    Raises:
        ConfigError: KAMERA_KERNEL names none, or one that isn't installed or can't be loaded.
    """
    name = os.environ.get(VARIABLE, "").strip().lower()
    if name:
        return kernel(name)
    if not (torch.cuda.is_available() and find_spec("triton") is not None):
        return for_cpu()
    try:
        return kernel("triton")
    except ConfigError as error:
        logger.warning("%s. KV on a GPU is placed by 'eager', which is slower.", error)
        return for_cpu()


@lru_cache(maxsize=1)
def for_cpu() -> Kernel:
    """The kernel for tensors on the CPU, if none is named: `numba` where it loads, else `blocked`."""
    if find_spec("numba") is None:
        return Blocked()
    try:
        return kernel("numba")
    except ConfigError as error:
        logger.warning("%s. KV is placed by 'blocked', which is slower.", error)
        return Blocked()


def kernel(name: str) -> Kernel:
    """A kernel by its name.

    Raises:
        ConfigError: an unknown name, or a package that isn't installed or can't be loaded.
    """
    if name == "eager":
        return Eager()
    if name == "blocked":
        return Blocked()
    if name not in NAMES:
        raise ConfigError(f"Invalid {VARIABLE}: expected one of {', '.join(NAMES)}, got {name!r}")
    if find_spec(name) is None:
        raise ConfigError(
            f"Kernel {name!r} needs the package {name}, which isn't installed: {_SOURCES[name]}, or set "
            f"{VARIABLE}=blocked"
        )
    try:
        return _loaded(name)
    except (ImportError, OSError) as error:  # an OSError: llvmlite without its library
        raise ConfigError(
            f"Kernel {name!r} can't be loaded: {error}. Set {VARIABLE}=blocked to do without"
        ) from error


def _loaded(name: str) -> Kernel:
    if name == "numba":
        from kamera.kernels.compiled import Compiled

        return Compiled()
    from kamera.kernels.triton_apply import TritonKernel

    return TritonKernel()


def available() -> tuple[str, ...]:
    """The kernels that compute on this machine's CPU, the slowest first."""
    return ("eager", "blocked", "numba") if find_spec("numba") is not None else ("eager", "blocked")


def write(placement: Placement, out: Mapping[str, Destination]) -> None:
    """Relocate, patch and write a chunk by this process's kernel.

    What that doesn't take `eager` does (float64, another device), but for tensors on the CPU of a process
    whose kernel is a GPU's: they go to `for_cpu`.
    """
    chosen = select()
    if not chosen.takes(placement, out):
        chosen = for_cpu() if chosen.name == "triton" else Eager()
        if not chosen.takes(placement, out):
            chosen = Eager()
    chosen.write(placement, out)


def place(
    canonical: ChunkKV,
    patch: Patch | None,
    positions: Positions,
    rope: Rope,
    out_dtype: torch.dtype | None = None,
) -> ChunkKV:
    """What `kamera.patch.apply` gives, by this process's kernel.

    Without a patch a channel that doesn't rotate keeps its storage, when it keeps its dtype.
    """
    dtype = out_dtype or canonical.dtype
    placed, out = {}, {}
    for channel in canonical.channels:
        base = canonical.tensors[channel.name]
        if patch is None and not channel.rotates and base.dtype == dtype:
            placed[channel.name] = base
        else:
            placed[channel.name] = out[channel.name] = torch.empty(
                base.shape, dtype=dtype, device=base.device
            )
    if out:
        write(Placement(canonical, patch, positions, rope), out)
    return ChunkKV(placed)


@lru_cache
def warm_up(dtype: torch.dtype) -> None:
    """Compile what CPU caches of this dtype need, so that no request waits for it; once a process.

    Seconds in the first process of a machine. What was compiled is kept on disk, beside the package or in
    the user's cache folder (Numba's NUMBA_CACHE_DIR), and then it takes less than a second.
    """
    begun = time.perf_counter()
    rope = RopeSpec((1.0,) * 16, (0,) * 16, num_axes=1, head_dim=32)
    chunk = ChunkKV({name: torch.zeros(1, 8, 1, 32, dtype=dtype) for name in ("k", "v")})
    for factors in (torch.float32, torch.bfloat16):
        one = Factors(torch.zeros(1, 8, 2, dtype=factors), torch.zeros(1, 2, 32, dtype=factors))
        place(chunk, Patch({"k": one, "v": one}, "warm-up"), torch.ones(8, 1).long(), rope)
    logger.info("What places KV on the CPU is ready after %.1f s", time.perf_counter() - begun)
