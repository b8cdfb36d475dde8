"""A solo request's whole prompt is the one chunk, as vLLM's own renderer makes it, start token or not."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine import Engine
from places import checkpoint

# In the engine's process: render one image alone as the companion does, and in a chat as the server does.
RENDER = """
import asyncio, base64, io
import numpy as np
from PIL import Image
from kamera.engines.vllm.fill.sender import rendered
from kamera.engines.vllm.fill.source import ImageSource, TextSource
from vllm.renderers.params import ChatParams

channels = {"RGB": (3,), "RGBA": (4,), "L": ()}[MODE]
pixels = np.random.default_rng(7).integers(0, 255, (64, 96, *channels), dtype=np.uint8)
buffer = io.BytesIO()
Image.fromarray(pixels).save(buffer, FORMAT)
url = f"data:image/{FORMAT.lower()};base64," + base64.b64encode(buffer.getvalue()).decode()
config, renderer = llm.model_config, llm.renderer

def told(made):
    ((place,),) = made["mm_placeholders"].values()
    ((name,),) = made["mm_hashes"].values()
    return {
        "ids": list(made["prompt_token_ids"]), "offset": place.offset, "length": place.length,
        "hash": name, "salt": made.get("cache_salt"),
    }

solo = asyncio.run(rendered(renderer, config, ImageSource(url, cache_salt="tenant")))
content = [
    {"type": "text", "text": "Look."},
    {"type": "image_url", "image_url": {"url": url}},
    {"type": "text", "text": "What?"},
]
_, (chat,) = renderer.render_chat(
    [[{"role": "user", "content": content}]], ChatParams(chat_template_kwargs={"tokenize": False})
)
text = asyncio.run(rendered(renderer, config, TextSource((5, 6, 7), "tenant")))
encode = llm.get_tokenizer().encode
result = {
    "num_started": len(encode("x")) - len(encode("x", add_special_tokens=False)),
    "solo": told(solo), "chat": told(chat),
    "text": (list(text["prompt_token_ids"]), text.get("cache_salt")),
}
"""
WRAPPERS = {"nano-gqa": (1, 1), "nano-mla": (3, 1), "nano-mha": (0, 0), "start token": (1, 1)}
"""Tokens before and after an image's placeholders that belong to its chunk."""


@pytest.fixture(scope="module", params=list(WRAPPERS))
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Engine]]:
    folder = tmp_path_factory.mktemp("sender")
    model = request.param
    source = start_token(folder / "model") if model == "start token" else checkpoint(model)
    with Engine(source, folder / "log") as running:
        yield model, running


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


@pytest.mark.parametrize(
    ("mode", "form"), [("RGB", "PNG"), ("RGBA", "PNG"), ("L", "PNG"), ("RGB", "JPEG")]
)
def test_a_solo_prompt_is_the_chunk_of_the_chat(
    engine: tuple[str, Engine], mode: str, form: str
) -> None:
    model, running = engine
    told: dict[str, Any] = running.call("run", f"MODE, FORMAT = {mode!r}, {form!r}\n{RENDER}")
    solo, chat = told["solo"], told["chat"]
    before, after = WRAPPERS[model]
    assert (solo["offset"], len(solo["ids"])) == (before, before + solo["length"] + after)
    assert chat["length"] == solo["length"]
    start = chat["offset"] - before
    assert chat["ids"][start : start + len(solo["ids"])] == solo["ids"]
    assert solo["hash"] == chat["hash"]  # the same processed item, from the processor's own cache
    assert solo["salt"] == "tenant"
    assert told["num_started"] == (model == "start token")  # else that model proves nothing
    assert told["text"] == ([5, 6, 7], "tenant")
