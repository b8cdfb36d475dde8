"""Qwen2.5-VL with sliding layers: the KV is kept whole, the model's own mask does the sliding.

Its window is shorter than an image. `test_families_one_axis` holds the same for Qwen2 and Gemma 3.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_reference import raw_request, relative

from kamera.channels import ChunkKV, concat
from kamera.engines.hf import HFEngine

WINDOW = 8


@pytest.fixture(scope="module")
def sliding(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny checkpoint with every layer but the first two sliding."""
    folder = tmp_path_factory.mktemp("sliding") / "model"
    shutil.copytree(tiny, folder)
    path = folder / "config.json"
    read = json.loads(path.read_text())
    read["text_config"].pop("layer_types", None)
    read["text_config"] |= {
        "use_sliding_window": True,
        "sliding_window": WINDOW,
        "max_window_layers": 2,
    }
    path.write_text(json.dumps(read))
    return folder


def request(picture: Any) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": "Frames: "}]
    parts += [{"type": "image", "image": picture(i, 140, 112 + 28 * i)} for i in range(2)]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "where is the ball?"}]}]


def own_logits(engine: HFEngine, picture: Any) -> torch.Tensor:
    """Last logits of the model's own forward, with the cache that it makes itself."""
    engine.model.model.rope_deltas = None
    with torch.inference_mode():
        return engine.model(**raw_request(engine, request(picture)).inputs()).logits[0, -1]


def test_composed_kv_is_the_models_own_beyond_the_window(
    sliding: Path, engine: HFEngine, picture: Any
) -> None:
    slides = HFEngine.from_pretrained(sliding)
    kinds = slides.backbone.text_config.layer_types
    assert set(kinds) == {"full_attention", "sliding_attention"}
    made = slides.prompt(request(picture))
    assert sum(chunk.num_tokens for chunk in made.chunks) > 5 * WINDOW
    logits = own_logits(slides, picture)
    truth = own_logits(HFEngine.from_pretrained(sliding, dtype="float64"), picture)
    context: ChunkKV | None = None
    start = 0
    for chunk in (*made.chunks, made.tail):
        vision = {chunk.media.digest: slides.see(chunk)} if chunk.media else {}
        out = slides.prefill([chunk], vision, start=start, context=context)
        context = out.kv if context is None else concat([context, out.kv])
        start += chunk.extent
    assert relative(out.logits, truth) <= 2 * relative(logits, truth)
    assert relative(own_logits(engine, picture), truth) > 1e-2, "the window is felt"
