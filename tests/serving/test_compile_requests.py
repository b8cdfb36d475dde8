"""The file that `kamera compile` reads."""

import base64
import json
from pathlib import Path

import pytest

import kamera
from kamera.engines.vllm.compile_plan import CompileOptions, engine_arguments
from kamera.engines.vllm.compile_requests import read_lines
from kamera.engines.vllm.served_config import checked
from kamera.engines.vllm.settings import ConnectorSettings
from kamera.errors import ConfigError

TEXT = {"messages": [{"role": "user", "content": "hello"}]}


def shows(url: object) -> dict[str, object]:
    part = {"type": "image_url", "image_url": {"url": url}}
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]}


def write(folder: Path, *lines: object) -> Path:
    file = folder / "requests.jsonl"
    file.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return file


def test_lines_keep_their_numbers_and_blank_ones_are_passed_over(tmp_path: Path) -> None:
    lines = read_lines(write(tmp_path, TEXT, "", "   ", TEXT, ""))
    assert [line.number for line in lines] == [1, 4]
    assert lines[1].loaded() == TEXT


def test_a_file_beside_the_requests_is_sent_as_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.PNG").write_bytes(b"bytes")
    (line,) = read_lines(write(tmp_path, shows("images/a.PNG")))
    body = line.loaded()
    url = body["messages"][0]["content"][1]["image_url"]["url"]
    assert url == "data:image/png;base64," + base64.b64encode(b"bytes").decode()
    assert line.body == shows("images/a.PNG")


def test_an_absolute_path_a_bare_string_and_a_data_url_are_taken(tmp_path: Path) -> None:
    image = tmp_path / "a.jpg"
    image.write_bytes(b"bytes")
    bare = {"role": "user", "content": [{"type": "image_url", "image_url": str(image)}]}
    lines = read_lines(
        write(
            tmp_path, shows(str(image)), {"messages": [bare]}, shows("data:image/png;base64,AA==")
        )
    )
    assert lines[0].loaded()["messages"][0]["content"][1]["image_url"]["url"].startswith("data:")
    assert lines[1].loaded()["messages"][0]["content"][0]["image_url"].startswith("data:image/jpg")
    assert lines[2].loaded() == shows("data:image/png;base64,AA==")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "isn't JSON"),
        ("[" * 100_000, "isn't JSON"),
        ([], "expected an object"),
        ({}, "expected messages"),
        ({"messages": []}, "expected messages"),
        ({"messages": "hello"}, "expected messages"),
        ({"messages": ["hello"]}, "messages with a role"),
        ({"messages": [{"content": "hello"}]}, "messages with a role"),
        ({"messages": [{"role": "user", "content": ["hello"]}]}, "parts with a type"),
        (shows(None), "image_url with a url"),
        (shows(""), "image_url with a url"),
        (shows("https://host/a.png"), "nothing is downloaded"),
        (shows("file:///a.png"), "nothing is downloaded"),
        (shows("missing.png"), "no such file"),
        (shows("."), "no such file"),
        (shows("a\0b"), "no such file"),
        (shows("x" * 10_000), "no such file"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, line: object, says: str) -> None:
    with pytest.raises(ConfigError, match=f"^Line 2.*{says}") as caught:
        read_lines(write(tmp_path, TEXT, line))
    assert len(str(caught.value)) < 500


def test_a_file_that_is_gone_when_it_is_needed_is_named_by_its_line(tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    image.write_bytes(b"bytes")
    (line,) = read_lines(write(tmp_path, shows("a.png")))
    image.unlink()
    with pytest.raises(ConfigError, match="Line 1: can't read"):
        line.loaded()


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe"])
def test_a_file_without_requests_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"is empty|isn't UTF-8"):
        read_lines(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Can't read"):
        read_lines(tmp_path / "none.jsonl")


def test_the_engine_runs_without_a_prefix_cache_whatever_is_given() -> None:
    options = CompileOptions(
        "m", ConnectorSettings(store="/s", fill="eager"), ("--enable-prefix-caching",)
    )
    arguments = engine_arguments(
        options, checked(str(kamera.packaged_model("nano-gqa"))), on_cpu=True
    )
    assert arguments[-2:] == ["--enable-prefix-caching", "--no-enable-prefix-caching"]


@pytest.mark.parametrize("option", ["--model", "--kv-transfer-config"])
def test_what_compile_sets_cannot_be_given_again(option: str) -> None:
    options = CompileOptions("m", ConnectorSettings(store="/s"), (option, "x"))
    with pytest.raises(ConfigError, match=option):
        engine_arguments(options, checked(str(kamera.packaged_model("nano-gqa"))), on_cpu=True)
