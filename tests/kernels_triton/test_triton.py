"""The Triton kernel without a GPU: its tests in the interpreter, and its compilation for real targets."""

import json
import os
import platform
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

Facts = dict[str, dict[str, dict[str, Any]]]
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BESIDE = Path(sys.prefix) / "triton"
"""Where `make setup` puts Triton: Transformers and torch would probe it if it were installed."""
NUM_TESTS = 90
"""No fewer than these: a module that isn't collected mustn't go unseen."""


def has_triton() -> bool:
    return BESIDE.is_dir() or find_spec("triton") is not None


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not has_triton() and (platform.system(), platform.machine()) != ("Linux", "x86_64"),
        reason="Triton is installed for the tests on Linux on x86_64 alone",
    ),
]


def run(
    command: list[str], cache_folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(BESIDE), os.environ.get("PYTHONPATH")]))
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "TRITON_CACHE_DIR": str(cache_folder),
        **variables,
    }
    command = [sys.executable, *command]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_the_kernel_keeps_its_contract_in_the_interpreter(tmp_path: Path) -> None:
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE), f"--ignore={__file__}"]
    done = run(command, tmp_path, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    last = done.stdout.splitlines()[-1]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", last)}
    assert counts["passed"] >= NUM_TESTS
    assert "skipped" not in counts


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """Target -> variant -> what the compiler says."""
    done = run([str(HERE / "compile_triton.py")], tmp_path_factory.mktemp("triton"))
    assert done.returncode == 0, done.stderr[-5000:]
    facts: Facts = json.loads(done.stdout.splitlines()[-1])
    return facts


def test_it_compiles_for_nvidia_and_amd(compiled: Facts) -> None:
    assert set(compiled) == {"sm_80", "sm_90", "gfx942"}
    assert all(facts["bytes"] > 0 for facts in compiled["gfx942"].values())


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_nothing_is_spilled_and_three_tiles_fit_an_sm(compiled: Facts, target: str) -> None:
    for variant, facts in compiled[target].items():
        assert facts["spilled"] == 0, variant
        # 65,536 registers on an SM, 128 threads in a tile. float32 factors do without tensor cores.
        assert facts["registers"] <= (255 if "float32" in variant else 170), (variant, facts)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_rows_are_read_and_written_16_bytes_at_a_time(compiled: Facts, target: str) -> None:
    for variant, facts in compiled[target].items():
        assert facts["narrow_stores"] == 0, variant
        assert min(facts["wide_loads"], facts["wide_stores"]) > 0, variant


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_16_bit_factors_run_on_tensor_cores_and_float32_ones_do_not(
    compiled: Facts, target: str
) -> None:
    uses = {variant: facts["tensor_cores"] for variant, facts in compiled[target].items()}
    without = {"keys, float32 factors", "float32 throughout", "keys, no patch"}
    assert uses == {variant: variant not in without for variant in uses}
