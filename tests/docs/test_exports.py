"""What `kamera` exports can be imported, is documented, and costs nothing until it is used."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import kamera

DOCS = Path(__file__).parents[2] / "docs"
NEED_MORE = {
    "kamera.engines.vllm.connector",
    "kamera.engines.vllm.stats",
    "kamera.kernels.triton_apply",
    "kamera.kernels.triton_interpreter",
    "kamera.kernels.triton_tile",
    "kamera.lab.benchmarks.lmms",
}
"""What needs a package that isn't in this environment: vLLM (`make test-vllm` imports these), Triton (so does
`tests/kernels_triton`, in processes that have it), lmms-eval."""
PACKAGES = [
    found.name
    for found in pkgutil.walk_packages(kamera.__path__, "kamera.")
    if not found.name.endswith("__main__") and found.name not in NEED_MORE
]


@pytest.mark.parametrize("name", kamera.__all__)
def test_every_export_exists(name: str) -> None:
    assert getattr(kamera, name) is not None
    assert name in dir(kamera)


@pytest.mark.parametrize("name", kamera.__all__)
def test_every_export_is_on_the_api_page(name: str) -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert f"`{name}`" in page or f"`{name}(" in page


def test_every_lazy_name_is_exported() -> None:
    assert set(kamera._MODULE_OF) <= set(kamera.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        kamera.Sesion  # noqa: B018


def test_importing_kamera_loads_no_third_party_package() -> None:
    code = (
        "import sys, kamera; kamera.ConfigError; "
        "print(*sorted({'torch', 'numpy', 'transformers', 'PIL', 'typer'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""


def test_using_the_core_loads_no_engine() -> None:
    code = (
        "import sys, kamera; [getattr(kamera, n) for n in kamera.__all__]; "
        "print(*sorted({'transformers', 'PIL', 'typer', 'sklearn'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""


@pytest.mark.parametrize("name", PACKAGES)
def test_every_all_is_true(name: str) -> None:
    module = importlib.import_module(name)
    missing = [item for item in getattr(module, "__all__", ()) if not hasattr(module, item)]
    assert missing == []


def test_every_session_verb_is_on_the_api_page() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    verbs = [name for name, value in vars(kamera.Session).items() if callable(value)]
    verbs.append("open")
    missing = [v for v in verbs if not v.startswith("_") and f"| `{v}(" not in page]
    assert missing == []
