"""What Numba keeps on disk: a bad file costs a compilation, never an error."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

numba = pytest.importorskip("numba", reason="needs the extra fast")


def doubled(x):
    """A function to compile."""
    return 2 * x


@pytest.fixture
def compile_it(monkeypatch, tmp_path):
    """Compile `doubled` as another process would, or take what is kept."""
    monkeypatch.setattr(numba.core.config, "CACHE_DIR", str(tmp_path))
    from kamera.kernels.kept import kept

    return lambda: kept(doubled)


def files(folder: Path, suffix: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix == suffix]


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", [b"", b"no pickle"])
def test_a_file_that_was_cut_short_is_made_again(compile_it, tmp_path, caplog, suffix, content):
    assert compile_it()(21) == 42
    (path,) = files(tmp_path, suffix)
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "kamera.kernels"):
        assert compile_it()(21) == 42
    assert "can't be read" in caplog.text
    again = compile_it()
    assert again(21) == 42
    assert again.stats.cache_hits, "it is kept once more"


def test_a_full_disk_costs_the_keeping_alone(compile_it, tmp_path, caplog, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", full)
    with caplog.at_level(logging.WARNING, "kamera.kernels"):
        assert compile_it()(21) == 42
    assert "isn't kept" in caplog.text
    assert not files(tmp_path, ".nbc")


REQUESTS = """
import torch
from placements import ROPES, chunk, dense, pages, patch, positions
from kamera.kernels import Placement, kernel, warm_up
from kamera.kernels import loops
for dtype in (torch.bfloat16, torch.float16, torch.float32):
    warm_up(dtype)
    ready = len(loops.write.signatures)
    kv = chunk(37, ROPES["by layer"], dtype, latent=96)
    factors = (torch.float32, torch.float16, torch.bfloat16)
    for added in (None, patch(kv, [3, 0, 1, 2]), *(patch(kv, 4, each) for each in factors)):
        one = Placement(kv, added, positions(37, ROPES["by layer"]), ROPES["by layer"], skip=1)
        for out in (dense(one), pages(one, "keys transposed in a block", dtype)):
            kernel("numba").write(one, out)
    print(len(loops.write.signatures) - ready)
"""


def test_after_a_warm_up_no_request_compiles():
    """Whatever the patch, the destination and the rope; in a process that has compiled nothing else."""
    done = subprocess.run(
        [sys.executable, "-c", REQUESTS],
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["0", "0", "0"], done.stderr
