"""`kamera compile` fills a store; a server that adds nothing then serves at first sight."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from environment import PYTHON, environment
from places import checkpoint
from reference import Item, gap, some
from server import Server

MODEL = "nano-gqa"
BOUND = 1e-4
OPTIONS = ("--dtype", "float32", "--enforce-eager", "--max-model-len", "2048")


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return some(MODEL, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compile")


@pytest.fixture(scope="module")
def said(folder: Path, items: list[Item]) -> list[str]:
    """What the command printed on the items' requests, whose images are files beside them."""
    lines = []
    for number, item in enumerate(items):
        content: list[object] = []
        for image in item.images:
            name = f"{number}-{image.name}"
            (folder / name).write_bytes(image.read_bytes())
            content.append({"type": "image_url", "image_url": {"url": name}})
        content.append({"type": "text", "text": item.question})
        lines.append(json.dumps({"messages": [{"role": "user", "content": content}]}))
    requests = folder / "requests.jsonl"
    requests.write_text("\n".join(lines))
    # At full rank, so that what is served equals a plain prefill.
    command = [Path(PYTHON).with_name("kamera"), "compile", checkpoint(MODEL), requests]
    done = subprocess.run(
        [*map(str, command), "--store", str(folder / "store"), "--rank", "512", "--", *OPTIONS],
        env=environment(VLLM_LOGGING_LEVEL="WARNING"),
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def server(folder: Path, said: list[str]) -> Iterator[Server]:
    store = ("--store", str(folder / "store"), "--rank", "512")
    with Server.kamera(MODEL, folder / "log", *store, "--fill", "off") as running:
        yield running


def test_it_says_that_all_is_served(said: list[str], items: list[Item]) -> None:
    prompts = sum(len(item.prompt_token_ids) for item in items)
    assert f"requests: {len(items)}, {prompts:,} tokens" in said
    (told,) = (line for line in said if line.startswith("served when sent again: "))
    served, reusable = told.split()[4], told.split()[6]
    assert served == reusable
    assert not any(line.startswith("not served") for line in said)


def test_a_server_that_adds_nothing_serves_at_first_sight(
    server: Server, items: list[Item]
) -> None:
    answers = asyncio.run(server.ask_all([(item.images, item.question) for item in items]))
    assert [answer.num_cached for answer in answers] == [item.num_held for item in items]
    for item, answer in zip(items, answers, strict=True):
        assert gap(answer.logprobs, item.logprobs["re-prefill"]) <= BOUND
