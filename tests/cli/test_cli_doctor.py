"""`kamera doctor`: what it prints, its exit codes, and that it loads no torch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import kamera
from kamera.cli.app import app
from kamera.support import FAMILIES, examine

QWEN: dict[str, Any] = {
    "model_type": "qwen2_5_vl",
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "rope_theta": 1000000.0,
    "torch_dtype": "bfloat16",
}


def doctor(config: dict[str, Any], folder: Path, *args: str) -> Result:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    environment = {"COLUMNS": "160", "NO_COLOR": "1"}
    return CliRunner().invoke(app, ["doctor", str(folder), *args], env=environment)


def test_a_supported_model_exits_with_0_and_tells_its_facts(tmp_path: Path) -> None:
    result = doctor(QWEN, tmp_path)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "Qwen2.5-VL: supported"
    text = " ".join(result.stdout.split())
    for fact in (
        "modalities text, image, video",
        "attention GQA",
        "channel k [H=4, D=128], rotates",
        "channel v [H=4, D=128], does not rotate",
        "M-RoPE sectioned [16, 24, 24], half, 128 of 128 dims, base 1,000,000",
        "layers 28: 28 full_attention",
        "bytes per token 57,344 (bfloat16)",
        "patch of rank 16 2,752,512 bytes on 1024 tokens: 4.7% of their KV",
    ):
        assert fact in text


def test_a_model_that_is_served_in_part_exits_with_0_and_says_its_limit(tmp_path: Path) -> None:
    scaling = {"type": "dynamic", "factor": 2.0}
    text_config = {"model_type": "qwen2", "max_position_embeddings": 32768, "rope_scaling": scaling}
    result = doctor({"model_type": "internvl", "text_config": text_config}, tmp_path)
    assert result.exit_code == 0
    assert result.stdout.startswith("InternVL3: partly\n")
    assert "changes its frequencies at 32,767 positions" in result.stdout


def test_a_refused_model_exits_with_1_and_says_why_and_what_to_do(tmp_path: Path) -> None:
    result = doctor({"model_type": "qwen3_5"}, tmp_path)
    assert result.exit_code == 1
    assert result.stderr == ""
    text = " ".join(result.stdout.split())
    assert text.startswith("Qwen3.5: refused")
    for part in (
        "can't be served 24 of 32 layers: linear_attention, 0-2, 4-6",
        "why they keep one running state",
        "what to do Serve it without Kamera.",
        "can't be patched: linear_attention 0-2, 4-6",
    ):
        assert part in text
    assert "patch of rank" not in text


@pytest.mark.parametrize("kind", [*FAMILIES, "never-heard-of"])
def test_every_family_can_be_shown_and_the_json_is_the_verdict(kind: str, tmp_path: Path) -> None:
    config = {"model_type": kind}
    verdict = examine(config)
    shown = doctor(config, tmp_path)
    printed = doctor(config, tmp_path, "--json")
    assert shown.exit_code == printed.exit_code == (verdict.status == "refused")
    report = json.loads(printed.stdout)
    assert printed.stdout.count("\n") == 1
    assert report["status"] == verdict.status
    assert report["reasons"] == [vars(reason) for reason in verdict.reasons]
    assert report["num_layers"] == len(report["layer_types"]) == verdict.num_layers
    assert report["bytes_per_token"] == verdict.bytes_per_token()


def test_the_dtype_of_the_cache_can_be_given(tmp_path: Path) -> None:
    report = json.loads(doctor(QWEN, tmp_path, "--json", "--dtype", "float32").stdout)
    assert (report["dtype"], report["cache_dtype"]) == ("bfloat16", "float32")
    assert report["bytes_per_token"] == 2 * 57_344


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["none"], "No such file or folder: none"),
        ([".", "--dtype", "int3"], "Unknown dtype 'int3'"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    args: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(QWEN), encoding="utf-8")
    result = CliRunner().invoke(app, ["doctor", *args])
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Error: {message}")


def test_a_name_with_markup_is_shown_as_it_is(tmp_path: Path) -> None:
    result = doctor({"model_type": "[red]x[/]"}, tmp_path)
    assert result.exit_code == 1
    assert "[red]x[/]: refused" in result.stdout


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "\x1b[31mred"},
        {"model_type": "\ud800"},
        {"model_type": "a\u202eb\rc\x07"},
        {"model_type": "llava", "text_config": {"model_type": "\x1b]0;title\x07"}},
        {**QWEN, "num_hidden_layers": 1, "layer_types": ["\x1b[2J"]},
        {**QWEN, "quantization_config": {"quant_method": "\x1b[2J"}},
        {**QWEN, "rope_scaling": {"type": "\x1b[2J"}},
        {**QWEN, "architectures": ["\x1b[2J"]},
        {**QWEN, "hidden_size": "\x1b[2J"},
        {**QWEN, "dtype": "\x1b[2J"},
        {"model_type": "gemma4", "per_layer_config": {"\x1b[2J": 3}},
        {"model_type": "llava", "vision_config": {"model_type": "\x1b[2J"}},
    ],
)
@pytest.mark.parametrize("args", [(), ("--json",)])
def test_nothing_from_a_config_steers_the_terminal(
    config: dict[str, Any], args: tuple[str, ...], tmp_path: Path
) -> None:
    result = doctor(config, tmp_path, *args)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert all(line.isprintable() for line in result.output.split("\n"))
    result.output.encode()


@pytest.mark.parametrize("args", [(), ("--json",)])
def test_an_absurd_size_is_one_line_that_names_the_key(
    args: tuple[str, ...], tmp_path: Path
) -> None:
    result = doctor({**QWEN, "hidden_size": 10**3999}, tmp_path, *args)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: Invalid hidden_size in the config: expected an integer from 1")
    assert len(line) < 200


def test_thousands_of_layer_types_fit_a_screen(tmp_path: Path) -> None:
    kinds = [f"new_{i}" for i in range(9_999)]
    result = doctor({**QWEN, "num_hidden_layers": 9_999, "layer_types": kinds}, tmp_path)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) < 50
    assert "1 new_5 and 9,993 more types" in result.stdout


def test_the_packaged_model_is_supported() -> None:
    result = CliRunner().invoke(app, ["doctor", str(kamera.packaged_model()), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["status"] == "supported"


@pytest.mark.parametrize("named", ["", "eager", "blocked", "numba"])
def test_the_kernel_is_the_one_that_the_dispatcher_chooses(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kamera.kernels import select

    monkeypatch.setenv("KAMERA_KERNEL", named)
    select.cache_clear()
    try:
        kernels = json.loads(doctor(QWEN, tmp_path, "--json").stdout)["kernels"]
        assert (kernels["cpu"], kernels["forced"]) == (select().name, named)
    finally:
        select.cache_clear()


@pytest.mark.parametrize(
    ("installed", "line"),
    [
        (
            {"numba", "triton"},
            "placed by numba on the CPU, triton on a GPU (tested in Triton's interpreter, not run on a GPU)",
        ),
        (
            set(),
            "placed by blocked on the CPU (numba, of the extra fast, is faster), eager on a GPU",
        ),
    ],
)
def test_it_says_which_kernel_places_kv_and_that_tritons_was_not_run(
    installed: set[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAMERA_KERNEL", raising=False)
    monkeypatch.setattr("kamera.cli.kernel.find_spec", lambda name: name in installed or None)
    assert line in " ".join(doctor(QWEN, tmp_path).stdout.split())


@pytest.mark.parametrize(
    ("named", "line"),
    [
        (
            "",
            "placed by blocked on the CPU (numba doesn't compile: NUMBA_DISABLE_JIT is set), eager on",
        ),
        (
            "numba",
            "placed by nothing: KAMERA_KERNEL=numba, and numba doesn't compile: NUMBA_DISABLE_JIT",
        ),
        ("eager", "placed by eager on the CPU (by KAMERA_KERNEL), eager on a GPU"),
    ],
)
def test_it_says_what_is_used_where_numba_does_not_compile(
    named: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="needs the extra fast")
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)  # what NUMBA_DISABLE_JIT=1 sets
    monkeypatch.setenv("KAMERA_KERNEL", named)
    monkeypatch.setattr(
        "kamera.cli.kernel.find_spec", lambda name: None if name == "triton" else object()
    )
    assert line in " ".join(doctor(QWEN, tmp_path).stdout.split())
    kernels = json.loads(doctor(QWEN, tmp_path, "--json").stdout)["kernels"]
    assert bool(kernels["problem"]) is (named != "eager")


def test_it_says_why_numba_can_not_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAMERA_KERNEL", raising=False)
    monkeypatch.setattr("kamera.cli.kernel.find_spec", lambda name: name == "numba" or None)
    monkeypatch.setitem(sys.modules, "numba", None)  # as one whose own import fails
    text = " ".join(doctor(QWEN, tmp_path).stdout.split())
    assert "placed by blocked on the CPU (numba is installed but can't be loaded: import of" in text
    assert "numba, of the extra fast, is faster" not in text


def test_with_a_gpus_kernel_named_the_cpu_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="needs the extra fast")
    monkeypatch.setenv("KAMERA_KERNEL", "triton")
    monkeypatch.setattr("kamera.cli.kernel.find_spec", lambda name: object())
    line = "placed by numba on the CPU, triton on a GPU (by KAMERA_KERNEL)"
    assert line in " ".join(doctor(QWEN, tmp_path).stdout.split())


def test_it_says_that_the_kernel_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAMERA_KERNEL", "eager")
    text = " ".join(doctor(QWEN, tmp_path).stdout.split())
    assert (
        "placed by eager on the CPU (by KAMERA_KERNEL), eager on a GPU (by KAMERA_KERNEL)" in text
    )


@pytest.mark.parametrize("named", ["numba", "triton"])
def test_a_named_kernel_that_is_not_installed_places_nothing(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kamera.errors import ConfigError
    from kamera.kernels import kernel

    monkeypatch.setenv("KAMERA_KERNEL", named)
    for module in ("kamera.cli.kernel", "kamera.kernels.select"):
        monkeypatch.setattr(
            sys.modules[module], "find_spec", lambda name: None if name == named else object()
        )
    with pytest.raises(ConfigError, match="isn't installed"):
        kernel(named)
    text = " ".join(doctor(QWEN, tmp_path).stdout.split())
    assert f"placed by nothing: KAMERA_KERNEL={named}, and the package {named} isn't" in text


def test_a_name_that_is_no_kernel_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAMERA_KERNEL", "warp")
    text = " ".join(doctor(QWEN, tmp_path).stdout.split())
    assert "KAMERA_KERNEL='warp' is no kernel; expected one of eager, blocked" in text
    assert "warp on the CPU" not in text


def test_it_loads_no_torch(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN), encoding="utf-8")
    code = (
        "import sys; from kamera.cli import main\n"
        f"try: main(['doctor', {str(tmp_path)!r}])\n"
        "finally: print('loaded:', *sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    env = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:"
