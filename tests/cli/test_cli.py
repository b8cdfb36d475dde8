"""The command line: commands, exit codes, and what goes to stderr."""

import builtins
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import kamera
from kamera.cli import main
from kamera.cli.app import app


def invoke(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def fails(result: Result) -> str:
    """The one line of an error: exit code 2, nothing on stdout, no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    # Transformers' bar: a real process turns it off before Transformers is imported.
    bar = "Loading weights"
    lines = [line for line in result.stderr.splitlines() if line and not line.startswith(bar)]
    assert len(lines) == 1, lines
    assert lines[0].startswith("Error: ")
    return lines[0]


def test_version_is_the_packages() -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"kamera {kamera.__version__}\n")


def test_the_entry_point_ends_in_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--version"])
    assert done.value.code == 0
    assert capsys.readouterr().out == f"kamera {kamera.__version__}\n"


def test_help_names_every_command_and_loads_no_torch() -> None:
    code = (
        "import sys; from kamera.cli import main\n"
        "try: main(['replay', '--help'])\n"
        "finally: assert 'torch' not in sys.modules, 'torch was loaded'"
    )
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    for command in (["-m", "kamera.cli", "--help"], ["-c", code]):
        done = subprocess.run(
            [sys.executable, *command],
            check=False,
            capture_output=True,
            text=True,
            env=env,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert "replay" in done.stdout
    listed = invoke("--help").stdout
    assert "demo" in listed
    assert "replay" in listed


@pytest.fixture
def no_typer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the extra `cli`."""
    for name in [name for name in sys.modules if name.startswith("kamera.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    found = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "typer":
            raise ModuleNotFoundError("No module named 'typer'", name="typer")
        return found(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)


@pytest.mark.usefixtures("no_typer")
def test_without_its_extra_the_entry_point_says_what_to_install(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as done:
        main([])
    assert done.value.code == 2
    assert "pip install 'kamera-kv[cli]'" in capsys.readouterr().err


def fake_demo(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    module = ModuleType("kamera.lab.demo")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kamera.lab.demo", module)


ARM = {"accuracy": 0.875, "agreement": 1.0, "kl": 0.0, "eta": 1.0, "n": 7}
ARMS = ("re-prefill", "patch 4", "patch 16", "kamera")
REPORT: dict[str, Any] = {
    "tasks": {"readout": {**dict.fromkeys(ARMS, ARM), "blind": {**ARM, "accuracy": 0.125}}},
    "operator": {
        "layer0_key_error": 1e-7,
        "offsets": [1, 30000],
        "values_identical": True,
        "bf16_ulp": 0.5,
        "full_rank_kl_max": 0.0,
    },
    "windows": {
        "orbit": {
            "n": 2,
            "eta_orbit": 0.5,
            "eta_exact": None,
            "paper": {"eta_orbit": 0.92, "eta_exact": 0.94},
        },
        "survivor": {
            "kl_keep": 0.1,
            "told_by_departed": {"kl_keep": 2.0},
            "paper": {"kl": 0.015},
        },
        "recall": {
            "eta_stale": [0.9, -1.0],
            "eta_fresh": [0.9, 0.9],
            "paper": {"eta_stale": -0.68, "eta_fresh": 0.87},
        },
    },
    "replay": {"steps": [], "settings": {"window": 3}, "totals": {}, "notes": [], "files": {}},
}


def test_demo_passes_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def run(**options: Any) -> dict[str, Any]:
        seen.update(options)
        options["progress"]("readout", 1, 2)
        return REPORT

    fake_demo(monkeypatch, run)
    shown = invoke("demo", "--out", "here", "--items", "7", "--model", "ck").output
    for cell in ("readout", "0.125", "0.875", "orbit", "0.920", "30000", "kamera", "tasks.png"):
        assert cell in shown
    assert invoke("demo", "--out", "here", "--items", "7", "--model", "ck").exit_code == 0
    assert seen.pop("progress")
    assert seen == {"out": Path("here"), "num_items": 7, "model": Path("ck")}
    assert invoke("demo").exit_code == 0
    assert (seen["out"], seen["num_items"], seen["model"]) == (Path("build/demo"), 256, None)


def test_a_missing_extra_is_one_line_with_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(**options: Any) -> dict[str, Any]:
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn.datasets")

    fake_demo(monkeypatch, run)
    line = fails(invoke("demo"))
    assert "sklearn.datasets isn't installed" in line
    assert "pip install 'kamera-kv[cli,hf,lab]'" in line


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(**options: Any) -> dict[str, Any]:
        raise RuntimeError("a bug")

    fake_demo(monkeypatch, run)
    result = invoke("demo")
    assert isinstance(result.exception, RuntimeError)
    assert result.exit_code == 1
