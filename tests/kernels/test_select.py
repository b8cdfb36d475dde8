"""Which kernel a process uses, and what it gives in place of `kamera.patch.apply`."""

import importlib
import os
import subprocess
import sys

import pytest
import torch
from placements import ROPES, bits, chunk, dense, patch, positions

from kamera import kernels
from kamera.errors import ConfigError
from kamera.kernels import Eager, Placement
from kamera.patch import apply

module = importlib.import_module("kamera.kernels.select")  # the package's `select` is the function


@pytest.fixture
def chosen(monkeypatch):
    """Let a test choose, and the next one choose again."""
    module.select.cache_clear(), module.for_cpu.cache_clear()
    yield monkeypatch
    module.select.cache_clear(), module.for_cpu.cache_clear()


@pytest.mark.parametrize("name", ["eager", "blocked", " Blocked ", "numba"])
def test_the_variable_names_the_kernel(chosen, name):
    if name == "numba":
        pytest.importorskip("numba", reason="needs the extra fast")
    chosen.setenv(module.VARIABLE, name)
    assert kernels.select().name == name.strip().lower()


def test_it_is_chosen_once(chosen):
    chosen.setenv(module.VARIABLE, "blocked")
    first = kernels.select()
    chosen.setenv(module.VARIABLE, "eager")
    assert kernels.select() is first


def test_an_unknown_name_is_refused(chosen):
    chosen.setenv(module.VARIABLE, "fastest")
    with pytest.raises(
        ConfigError, match="expected one of eager, blocked, numba, triton, got 'fas"
    ):
        kernels.select()


@pytest.mark.parametrize("name", ["numba", "triton"])
def test_one_that_is_not_installed_is_refused_by_name_and_never_chosen(chosen, name):
    chosen.setattr(module, "find_spec", lambda name: None)
    chosen.setenv(module.VARIABLE, name)
    with pytest.raises(ConfigError, match=f"Kernel '{name}' needs the package {name}"):
        kernels.select()
    chosen.delenv(module.VARIABLE)
    assert kernels.select().name == "blocked"


def test_one_that_cannot_be_loaded_is_refused_by_name_and_never_chosen(chosen, caplog):
    pytest.importorskip("numba", reason="needs the extra fast")
    chosen.setitem(sys.modules, "kamera.kernels.compiled", None)  # as a numpy that numba refuses
    chosen.setattr(torch.cuda, "is_available", lambda: False)
    assert kernels.select().name == "blocked"
    assert "Kernel 'numba' can't be loaded" in caplog.text
    module.select.cache_clear()
    chosen.setenv(module.VARIABLE, "numba")
    with pytest.raises(ConfigError, match=r"Kernel 'numba' can't be loaded.*KAMERA_KERNEL=blocked"):
        kernels.select()


def test_whatever_loading_raises_another_kernel_takes_its_place(chosen, caplog):
    """A llvmlite whose library isn't there raises an OSError."""

    def broken(name):
        raise OSError("Could not find/load shared object file")

    chosen.delenv(module.VARIABLE, raising=False)
    chosen.setattr(module, "find_spec", lambda name: object())
    for has_gpu in (False, True):
        chosen.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        chosen.setattr(module, "_loaded", broken)
        module.select.cache_clear(), module.for_cpu.cache_clear()
        assert kernels.select().name == "blocked"
    assert "Kernel 'numba' can't be loaded: Could not find" in caplog.text
    assert "Kernel 'triton' can't be loaded: Could not find" in caplog.text


class OnGpu(Eager):
    """Stands for the Triton kernel: takes nothing that lies on the CPU."""

    name = "triton"

    def takes(self, placement, out):
        return next(iter(placement.canonical.tensors.values())).device.type != "cpu"


@pytest.mark.parametrize("named", ["", "triton"])
def test_with_a_gpu_tensors_on_the_cpu_go_to_the_cpus_kernel(chosen, named):
    """And float64, which that doesn't take either, to the reference."""
    best = module.for_cpu()
    chosen.setenv(module.VARIABLE, named)
    chosen.setattr(torch.cuda, "is_available", lambda: True)
    chosen.setattr(module, "find_spec", lambda name: object())
    loaded = module._loaded
    chosen.setattr(module, "_loaded", lambda name: OnGpu() if name == "triton" else loaded(name))
    assert kernels.select().name == "triton"
    wrote = []
    for kind in {OnGpu, type(best), Eager}:
        chosen.setattr(kind, "write", lambda self, *given, kind=kind: wrote.append(kind))
    rope = ROPES["small head"]
    for dtype in (torch.float32, torch.float64):
        placement = Placement(chunk(5, rope, dtype), None, positions(5, rope), rope)
        kernels.write(placement, dense(placement))
    assert wrote == [type(best), Eager]


def test_blocked_leaves_tensors_on_another_device_alone():
    rope = ROPES["small head"]
    kv = chunk(5, rope, torch.float32)
    placement = Placement(kv, None, positions(5, rope), rope)
    assert module.Blocked().takes(placement, dense(placement))
    elsewhere = type(kv)({name: tensor.to("meta") for name, tensor in kv.tensors.items()})
    placement = Placement(elsewhere, None, positions(5, rope), rope)
    assert not module.Blocked().takes(placement, dense(placement))


@pytest.mark.parametrize(("off", "name"), [("1", "blocked"), ("0", "numba")])
def test_a_numba_that_does_not_compile_is_not_chosen(off, name):
    pytest.importorskip("numba", reason="needs the extra fast")
    code = "import kamera.kernels as k; print(k.select().name)"
    env = {**os.environ, "NUMBA_DISABLE_JIT": off, "CUDA_VISIBLE_DEVICES": ""}
    env.pop("KAMERA_KERNEL", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == name


@pytest.mark.parametrize("rank", [0, 5])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_place_gives_what_apply_gives(dtype, rank):
    rope = ROPES["M-RoPE"]
    kv = chunk(17, rope, torch.bfloat16)
    rest = (patch(kv, rank) if rank else None, positions(17, rope), rope, dtype)
    got, wanted = kernels.place(kv, *rest), apply(kv, *rest)
    for name, tensor in wanted.tensors.items():
        assert (got.tensors[name].dtype, got.tensors[name].shape) == (dtype, tensor.shape)
        # Equal but for the order of the product's sum: an ULP of the largest, in the cache dtype.
        bound = torch.finfo(dtype).eps * float(tensor.abs().max())
        assert (got.tensors[name] - tensor).abs().max() <= bound
    shared = got.tensors["v"].data_ptr() == kv.tensors["v"].data_ptr()
    assert shared == (rank == 0 and dtype == torch.bfloat16)


def test_what_the_kernel_does_not_take_eager_does():
    rope = ROPES["small head"]
    kv = chunk(5, rope, torch.float64)
    placement = Placement(kv, patch(kv, 2, torch.float64), positions(5, rope), rope)
    got, wanted = dense(placement), dense(placement)
    assert not kernels.select().takes(placement, got) or kernels.select().name == "eager"
    kernels.write(placement, got)
    Eager().write(placement, wanted)
    assert all(bits(got[name]).equal(bits(wanted[name])) for name in wanted)


def test_importing_the_kernels_loads_no_compiler():
    code = (
        "import sys, kamera.kernels; print(*({'numba', 'llvmlite', 'triton'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_code_made_from_other_sources_has_another_fingerprint(tmp_path):
    pytest.importorskip("numba", reason="needs the extra fast")
    from kamera.kernels.loops import fingerprint

    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a"), other.write_text("b")
    assert fingerprint(one, other) == fingerprint(one, other)
    assert fingerprint(one, other) != fingerprint(one, one)
