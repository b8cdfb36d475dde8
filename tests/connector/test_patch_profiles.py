"""Patches of every profile through both halves: formed, kept, planned, read and written to blocks."""

import pytest
import torch
from connector_doubles import SPEC, Engine, shown
from test_halves import learned

from kamera.patch import Patch, apply


def reference(engine, request):
    """Canonical plus the stored patch of each chunk, by the plain operator."""
    tracked = engine.scheduler._track(request)
    (library,) = engine.worker._libraries.values()
    placed, front = [], []
    for chunk, start in zip(tracked.chunks[0], tracked.starts(), strict=True):
        canonical = library.canonical(chunk)
        patch = None
        if front:
            (record,) = library.patches(chunk, front)
            patch = library.patch(chunk, record)
            assert isinstance(patch, Patch)
        placed.append(apply(canonical, patch, chunk.layout.at(start), SPEC, engine.pool.dtype))
        front.append(chunk.digest)
    return {n: torch.cat([part.tensors[n] for part in placed], dim=1) for n in ("k", "v")}


@pytest.mark.parametrize(
    "patch",
    [
        None,
        "rank 2",
        "rank 64, bf16",
        "bytes 30%, int8",
        "bytes 30%, fp8",
        "energy 90%",
        "deep 50%",
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_hold_canonical_plus_the_stored_patch(patch, dtype):
    engine = Engine(dtype=dtype, rank=None, patch=patch)
    learned(engine, [1, 2])
    request = shown("second", [1, 2])
    assert engine.run(request) == 20
    found, wanted = engine.in_blocks(request).tensors, reference(engine, request)
    for name in ("k", "v"):
        # The same sums, perhaps grouped otherwise: float32 rounding, then at most one ULP of bf16.
        ulp = 0.0 if dtype == torch.float32 else 2**-7
        torch.testing.assert_close(found[name], wanted[name], rtol=ulp, atol=1e-5)


def test_another_profile_misses_what_one_has_formed():
    engine = Engine(rank=None, patch="bytes 30%, int8")
    learned(engine, [1, 2])
    other = Engine(rank=None, patch="bytes 30%, fp8")
    other.store = other.scheduler.store = other.worker.store = engine.store
    assert other.run(shown("second", [1, 2])) == 4
