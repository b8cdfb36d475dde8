"""`kamera serve` and `kamera compile` where vLLM isn't installed: what they say, and that nothing starts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kamera.cli.app import app
from kamera.engines.vllm.compile_plan import CompileReport


def invoke(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def error_of(result: Result) -> str:
    assert result.exit_code == 2, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0].removeprefix("Error: ")


def request(
    tmp_path: Path, text: str = '{"messages": [{"role": "user", "content": "hi"}]}'
) -> Path:
    file = tmp_path / "requests.jsonl"
    file.write_text(text)
    return file


def test_without_vllm_both_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "WARNING")  # else compile would set it for good
    asked = [
        ("serve", "nano-gqa", "--dry-run"),
        ("compile", "nano-gqa", request(tmp_path), "--store", tmp_path / "s"),
    ]
    for args in asked:
        said = error_of(invoke(*args))
        assert said.startswith("vLLM isn't installed: expected 0.32.x; install kamera-kv[vllm]")


def test_a_model_that_cannot_be_served_is_said_first(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    said = error_of(invoke("serve", tmp_path))
    assert "can't be served" in said
    said = error_of(invoke("compile", tmp_path, request(tmp_path), "--store", tmp_path / "s"))
    assert "can't be served" in said


def test_a_front_end_without_the_companion_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    assert error_of(invoke("serve", "nano-gqa")).startswith("VLLM_USE_RUST_FRONTEND is set")
    assert error_of(invoke("serve", "nano-gqa", "--fill", "off")).startswith("vLLM isn't installed")


def test_a_bad_line_is_said_before_the_model_is_looked_at(tmp_path: Path) -> None:
    said = error_of(invoke("compile", "none", request(tmp_path, "\n{}"), "--store", tmp_path / "s"))
    assert said.startswith("Line 2: expected messages")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "args",
    [
        ("serve", "nano-gqa", "--fill", "sometimes"),
        ("serve", "nano-gqa", "--port", "0"),
        ("serve", "nano-gqa", "--rank", "0"),
        ("serve", "nano-gqa", "--fill-per-minute", "0"),
        ("serve", "nano-gqa", "--engine", "other"),
        ("serve",),
        ("compile", "nano-gqa"),
    ],
)
def test_options_that_cannot_be_right_end_with_exit_code_2(args: tuple[str, ...]) -> None:
    result = invoke(*args)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("disk_bytes", "expected NAME=VALUE"),
        ("disk_byte=5", "did you mean 'disk_bytes'"),
        ("disk_bytes=0", "Invalid disk_bytes"),
    ],
)
def test_a_setting_that_cannot_be_right_is_one_line(given: str, message: str) -> None:
    assert message in error_of(invoke("serve", "nano-gqa", "--dry-run", "--set", given))


def test_the_summary_of_compile_says_what_was_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = CompileReport(
        num_requests=3,
        num_images=2,
        num_texts=1,
        num_prompt_tokens=3000,
        num_reusable_tokens=2000,
        num_served_tokens=1500,
        unserved=[7],
    )
    monkeypatch.setattr("kamera.engines.vllm.compile.compile_store", lambda *_: report)
    result = invoke("compile", "nano-gqa", request(tmp_path), "--store", tmp_path / "s")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "requests: 3, 3,000 tokens",
        "canonicals: 2 images, 1 texts",
        "served when sent again: 1,500 of 2,000 tokens to the end of each request's last image",
        "not served to the last image: line 7; VLLM_LOGGING_LEVEL=INFO says why",
        f"store: {tmp_path / 's'}",
    ]


def test_help_loads_neither_torch_nor_vllm() -> None:
    code = (
        "import sys; from kamera.cli import main\n"
        "try: main([sys.argv[1], '--help'])\n"
        "finally: assert not {'torch', 'vllm', 'transformers'} & set(sys.modules)"
    )
    for command in ("serve", "compile"):
        done = subprocess.run(
            [sys.executable, "-c", code, command],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
