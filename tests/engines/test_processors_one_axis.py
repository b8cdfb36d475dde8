"""Token ids of whole requests against each family's own processor, which needs torchvision."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import IMAGES, build
from PIL import Image

from kamera.engines.hf import HFEngine

TORCHVISION = Path(sys.prefix) / "torchvision"
OPERATORS = Path(__file__).parent / "hf" / "torchvision_ops"
SIZES = [(56, 56), (84, 56), (60, 130), (200, 60), (30, 170), (333, 200), (20, 20), (168, 168)]
"""Width and height: square, both ways oblong, larger and smaller than any tile."""

OWN = """
import json, sys
from pathlib import Path
from PIL import Image
import transformers
from transformers import AutoImageProcessor, AutoTokenizer, BaseVideoProcessor
from transformers.models.smolvlm import processing_smolvlm
processing_smolvlm.num2words = str  # asked for when it is made; used for videos alone
root = Path(sys.argv[1])
pictures = {path.stem: Image.open(path) for path in root.glob("*.png")}
ids = {}
for name, (class_name, settings, video) in json.loads((root / "cases.json").read_text()).items():
    folder = root / name
    parts = {"tokenizer": AutoTokenizer.from_pretrained(folder)}
    backend = "torchvision" if name == "kimi_k25" else "pil"
    parts["image_processor"] = AutoImageProcessor.from_pretrained(folder, backend=backend)
    if video:
        parts["video_processor"] = getattr(transformers, video)()
    template = parts["tokenizer"].chat_template
    processor = getattr(transformers, class_name)(**parts, **settings, chat_template=template)
    for request in json.loads((root / "requests.json").read_text()):
        content = [
            {**part, "image": pictures[part["image"]]} if part["type"] == "image" else part
            for part in request
        ]
        out = processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=True
        )
        got = out["input_ids"] if hasattr(out, "keys") else out
        got = got.tolist() if hasattr(got, "tolist") else got
        ids.setdefault(name, []).append(got[0] if isinstance(got[0], list) else got)
(root / "ids.json").write_text(json.dumps(ids))
"""
VIDEO = {
    "internvl": "InternVLVideoProcessor",
    "llava_onevision": "LlavaOnevisionVideoProcessor",
    "smolvlm": "SmolVLMVideoProcessor",
    "kimi_k25": "Kimi_K25VideoProcessor",
}


def requests() -> list[list[dict[str, str]]]:
    """One image of every size, and one request of two images with text before, between and behind."""
    question = {"type": "text", "text": "what color is the shape?"}
    made = [[{"type": "image", "image": str(i)}, question] for i in range(len(SIZES))]
    shown = [{"type": "image", "image": str(i)} for i in (1, 2)]
    made.append([{"type": "text", "text": "Look:\n"}, shown[0], shown[1], question])
    return made


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints, pictures, and the ids that the families' own processors give."""
    made = tmp_path_factory.mktemp("processors")
    rng = np.random.default_rng(0)
    for number, (width, height) in enumerate(SIZES):
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(made / f"{number}.png")
    cases = {n: (t.processor, t.settings, VIDEO.get(n)) for n, t in IMAGES.items()}
    for name in IMAGES:
        build(name, made / name)
    (made / "cases.json").write_text(json.dumps(cases))
    (made / "requests.json").write_text(json.dumps(requests()))
    path = os.pathsep.join([str(OPERATORS), str(TORCHVISION)])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", OWN, str(made)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return made


def with_pictures(request: list[dict[str, str]], root: Path) -> list[dict[str, Any]]:
    """The request as the engine takes it: paths for the pictures' names."""
    content = [
        {**part, "image": root / f"{part['image']}.png"} if part["type"] == "image" else part
        for part in request
    ]
    return [{"role": "user", "content": content}]


@pytest.mark.skipif(not TORCHVISION.is_dir(), reason="torchvision isn't beside the environment")
@pytest.mark.parametrize("name", list(IMAGES))
def test_a_request_has_the_very_ids_of_the_family_s_own_processor(root: Path, name: str) -> None:
    engine = HFEngine.from_pretrained(root / name)
    own = json.loads((root / "ids.json").read_text())[name]
    assert len(own) == len(SIZES) + 1
    for request, expected in zip(requests(), own, strict=True):
        made = engine.prompt(with_pictures(request, root))
        ids = [i for chunk in (*made.chunks, made.tail) for i in chunk.key.token_ids]
        if name == "llava_onevision" and len(request) > 2:
            # its processor cuts a lone image into tiles and none of several; a chunk knows no others
            assert len(ids) > len(expected)
        else:
            assert ids == expected
