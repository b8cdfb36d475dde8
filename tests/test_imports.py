"""What importing pulls in, and that what is promised can be imported."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import kamera

EXTRAS = ("transformers", "tokenizers", "PIL", "typer", "rich", "matplotlib", "sklearn")
"""Distributions that only an extra installs."""

CORE = [
    "kamera", "kamera.errors", "kamera.rope", "kamera.channels", "kamera.patch", "kamera.identity",
    "kamera.store", "kamera.planner", "kamera.window", "kamera.chunk", "kamera.positions",
    "kamera.engines", "kamera.engines.contract", "kamera.session", "kamera.arms",
]  # fmt: skip


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_package_loads_neither_torch_nor_an_extra() -> None:
    code = f"import sys, kamera\nprint(*(n for n in ('torch', *{EXTRAS}) if n in sys.modules))"
    assert run(code) == ""


def test_the_core_imports_no_extra() -> None:
    code = f"import sys, {', '.join(CORE)}\n"
    code += f"print(*(name for name in {EXTRAS} if name in sys.modules))"
    assert run(code) == ""


def test_the_core_imports_with_every_extra_absent() -> None:
    code = f"import sys\nfor name in {EXTRAS}:\n    sys.modules[name] = None\n"
    code += f"import {', '.join(CORE)}\nprint('ok')"
    assert run(code) == "ok"


def test_planner_and_window_work_without_torch_and_numpy() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'numpy', 'safetensors', 'jaxtyping'):\n"
        "    sys.modules[name] = None\n"
        "from kamera.planner import Request, RequestedChunk, StaticCatalog, plan\n"
        "from kamera.window import Slot, Window\n"
        "Window(2).admit(Slot('a', 'x')).slide()\n"
        "print(plan(Request((RequestedChunk('a', 'x', 3),)), StaticCatalog()).explain())"
    )
    assert run(code) == "a: form (miss: never seen)"


def packages() -> list[str]:
    found = [module.name for module in pkgutil.iter_modules(kamera.__path__, "kamera.")]
    nested = ["kamera.engines.contract", "kamera.engines.hf"]
    return ["kamera", *found, *nested]


@pytest.mark.parametrize("name", packages())
def test_everything_in_all_can_be_imported(name: str) -> None:
    if name in ("kamera.cli", "kamera.lab"):
        pytest.importorskip("typer", reason="needs the extras cli and lab")
    module = importlib.import_module(name)
    promised = getattr(module, "__all__", [])
    assert len(set(promised)) == len(promised)
    for public in promised:
        assert getattr(module, public, None) is not None, public


def test_the_version_is_the_distributions() -> None:
    from importlib.metadata import version

    assert kamera.__version__ == version("kamera-kv")
