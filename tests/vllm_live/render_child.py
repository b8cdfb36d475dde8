"""A process that renders and runs no engine: `python render_child.py FOLDER...`, one JSON line for each.

Each image alone, as the companion does it, and in a chat, as the server does it.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sys
from typing import Any

CHANNELS = {"RGB": (3,), "RGBA": (4,), "L": ()}
KINDS = ("RGB/PNG", "RGBA/PNG", "L/PNG", "RGB/JPEG")


def main(folders: list[str]) -> None:
    """Every kind of image in every checkpoint."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.renderers import renderer_from_config

    for folder in folders:
        config = EngineArgs(
            model=folder, dtype="float32", max_model_len=2048, enforce_eager=True
        ).create_engine_config()
        renderer = renderer_from_config(config)
        told = asyncio.run(rendered_kinds(renderer, config.model_config))
        encode = renderer.get_tokenizer().encode
        plain = len(encode("x", add_special_tokens=False))
        print(json.dumps({**told, "num_started": len(encode("x")) - plain}), flush=True)
        renderer.shutdown()


async def rendered_kinds(renderer: Any, model_config: Any) -> dict[str, Any]:
    """Kind -> the solo prompt and the chat's; and a text's."""
    from vllm.renderers.params import ChatParams

    from kamera.engines.vllm.fill.sender import rendered
    from kamera.engines.vllm.fill.source import ImageSource, TextSource

    told: dict[str, Any] = {}
    for kind in KINDS:
        url = data_url(*kind.split("/"))
        solo = await rendered(renderer, model_config, ImageSource(url, cache_salt="tenant"))
        content = [
            {"type": "text", "text": "Look."},
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "text", "text": "What?"},
        ]
        chat_params = ChatParams(chat_template_kwargs={"tokenize": False})
        _, (chat,) = await renderer.render_chat_async(
            [[{"role": "user", "content": content}]], chat_params
        )
        told[kind] = {"solo": shown(solo), "chat": shown(chat)}
    text = await rendered(renderer, model_config, TextSource((5, 6, 7), "tenant"))
    return {**told, "text": [list(text["prompt_token_ids"]), text.get("cache_salt")]}


def shown(made: Any) -> dict[str, Any]:
    """One engine input, as far as the test looks."""
    ((place,),) = made["mm_placeholders"].values()
    ((name,),) = made["mm_hashes"].values()
    return {
        "ids": list(made["prompt_token_ids"]),
        "offset": place.offset,
        "length": place.length,
        "hash": name,
        "salt": made.get("cache_salt"),
    }


def data_url(mode: str, form: str) -> str:
    """A picture of noise, as clients send it."""
    import numpy as np
    from PIL import Image

    shape = (64, 96, *CHANNELS[mode])
    pixels = np.random.default_rng(7).integers(0, 255, shape, dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, form)
    return f"data:image/{form.lower()};base64," + base64.b64encode(buffer.getvalue()).decode()


if __name__ == "__main__":
    main(sys.argv[1:])
