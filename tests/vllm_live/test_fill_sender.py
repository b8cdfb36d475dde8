"""A solo request's whole prompt is the one chunk, as vLLM's own renderer makes it, start token or not."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from environment import PYTHON, environment
from places import checkpoint
from render_child import KINDS

WRAPPERS = {"nano-gqa": (1, 1), "nano-mla": (3, 1), "nano-mha": (0, 0), "start token": (1, 1)}
"""Tokens before and after an image's placeholders that belong to its chunk."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Model -> what its renderer made."""
    made = tmp_path_factory.mktemp("sender") / "model"
    folders = [start_token(made) if m == "start token" else checkpoint(m) for m in WRAPPERS]
    child = Path(__file__).with_name("render_child.py")
    done = subprocess.run(
        [PYTHON, str(child), *map(str, folders)],
        env=environment(VLLM_LOGGING_LEVEL="ERROR"),
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return dict(zip(WRAPPERS, lines, strict=True))


def start_token(folder: Path) -> Path:
    """nano-gqa with a tokenizer that puts a token in front of every text, as LLaVA's does."""
    shutil.copytree(checkpoint("nano-gqa"), folder)
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    name = "<|im_start|>"
    number = next(t["id"] for t in tokenizer["added_tokens"] if t["content"] == name)
    post = tokenizer["post_processor"]
    post["single"].insert(0, {"SpecialToken": {"id": name, "type_id": 0}})
    post["special_tokens"] = {name: {"id": name, "ids": [number], "tokens": [name]}}
    file.write_text(json.dumps(tokenizer))
    return folder


@pytest.mark.parametrize("model", WRAPPERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_solo_prompt_is_the_chunk_of_the_chat(
    told: dict[str, Any], model: str, kind: str
) -> None:
    solo, chat = told[model][kind]["solo"], told[model][kind]["chat"]
    before, after = WRAPPERS[model]
    assert (solo["offset"], len(solo["ids"])) == (before, before + solo["length"] + after)
    assert chat["length"] == solo["length"]
    start = chat["offset"] - before
    assert chat["ids"][start : start + len(solo["ids"])] == solo["ids"]
    assert (
        solo["hash"] == chat["hash"]
    )  # the same item, so the same pixels from the processor's cache
    assert solo["salt"] == "tenant"


@pytest.mark.parametrize("model", WRAPPERS)
def test_a_solo_text_is_its_token_ids(told: dict[str, Any], model: str) -> None:
    assert told[model]["text"] == [[5, 6, 7], "tenant"]
    # The control: only that checkpoint's tokenizer would put a token in front.
    assert told[model]["num_started"] == (model == "start token")
