"""A config.json is read, or what is there instead is named; and no model code is imported for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kamera.errors import ConfigError
from kamera.support import read_config


def test_a_folder_and_its_file_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama"}', encoding="utf-8")
    assert read_config(tmp_path) == read_config(str(file)) == {"model_type": "llama"}


def test_a_byte_order_mark_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8-sig")
    assert read_config(tmp_path)["model_type"] == "llama"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "isn't JSON"),
        (b"{model_type: llama}", "isn't JSON"),
        (b"[" * 100_000, "isn't JSON"),
        (b"[1, 2]", "expected a JSON object, got list"),
        (b"{}", "names no model_type"),
        (b'{"architectures": ["LlamaForCausalLM"]}', "it names .'LlamaForCausalLM'"),
        (b'{"base_model_name_or_path": "x"}', "an adapter's: point to its base model"),
        (b'{"image_processor_type": "x"}', "a processor's"),
        (b"<!doctype html><title>404</title>", "is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Run git lfs pull"),
        (b"\x80\x00\xff", "isn't text"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else None,
)
def test_what_is_there_instead_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_config(tmp_path)


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or folder"):
        read_config(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"No config\.json in"):
        read_config(tmp_path)


def test_a_folder_of_checkpoints_names_them(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="Folders in it have one: a, b"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"), [("model_index.json", "diffusion"), ("m.gguf", "GGUF")]
)
def test_a_folder_of_another_kind_is_named(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_config(tmp_path)


def test_weights_are_not_read_as_a_config(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"\x08\xff\x00\x00")
    with pytest.raises(ConfigError, match="got weights"):
        read_config(file)
    with file.open("r+b") as handle:
        handle.truncate(17 * 1024 * 1024)
    with pytest.raises(ConfigError, match="bytes: expected a config"):
        read_config(file)


def test_a_file_that_may_not_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ConfigError, match=r"Can't read .*config\.json: Permission denied"):
        read_config(tmp_path)


def test_a_verdict_imports_no_model_code(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_vl"}), encoding="utf-8")
    code = (
        "import sys; from kamera.support import examine, read_config\n"
        f"verdict = examine(read_config({str(tmp_path)!r})); verdict.to_json()\n"
        "assert verdict.status == 'supported'\n"
        "heavy = {'torch', 'transformers', 'numpy', 'safetensors', 'jaxtyping', 'rich', 'typer'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
