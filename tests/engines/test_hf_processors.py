"""What the engine writes for an image, a video and a clip, against the families' own processors."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import MROPE, build
from checkpoints.mrope import WITH_AUDIO, WITH_VIDEO
from PIL import Image

from kamera.engines.hf import HFEngine

TORCHVISION = Path(sys.prefix) / "torchvision"
SCRIPTS = Path(__file__).parent / "hf"
pytestmark = pytest.mark.skipif(
    not TORCHVISION.is_dir(), reason="torchvision isn't beside the environment"
)

FRAMES, HEIGHT, WIDTH = 5, 75, 110
"""An odd number of frames, of sizes that every family resizes."""


def rate(family: str) -> float | None:
    """Frames per second; Qwen3-Omni is served at whole positions alone."""
    if family not in WITH_VIDEO:
        return None
    return 2.0 if family == "qwen3_omni_moe" else 3.0


@pytest.fixture(scope="module")
def media() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    return {
        "image": rng.integers(0, 256, (60, 150, 3), dtype=np.uint8),
        "frames": rng.integers(0, 256, (FRAMES, HEIGHT, WIDTH, 3), dtype=np.uint8),
        "audio": rng.normal(0.0, 0.1, 20011).astype(np.float32),
    }


def chat(family: str, media: dict[str, Any]) -> list[dict[str, Any]]:
    """One item of each kind that the family takes, text around and between."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": "Look: "}]
    parts += [{"type": "image", "image": Image.fromarray(media["image"])}]
    if family in WITH_VIDEO:
        frames = [Image.fromarray(frame) for frame in media["frames"]]
        parts += [{"type": "text", "text": " then (at once):"}]
        parts += [{"type": "video", "video": frames, "fps": rate(family)}]
    if family in WITH_AUDIO:
        parts += [{"type": "audio", "audio": media["audio"], "sampling_rate": 16000}]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "where is the ball?"}]}]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("families")


@pytest.fixture(scope="module")
def engines(root: Path) -> dict[str, HFEngine]:
    return {name: HFEngine.from_pretrained(build(name, root / name)) for name in MROPE}


@pytest.fixture(scope="module")
def processed(root: Path, engines: dict[str, HFEngine], media: dict[str, Any]) -> dict[str, Any]:
    """All families' outputs, by "family/name", from one process with torchvision."""
    requests = {
        name: {
            "text": engine.tokenizer.apply_chat_template(
                chat(name, media), tokenize=False, add_generation_prompt=True
            ),
            "processor": MROPE[name].processor,
            "fps": rate(name),
            "audio": name in WITH_AUDIO,
        }
        for name, engine in engines.items()
    }
    (root / "request.json").write_text(json.dumps(requests))
    np.savez(root / "media.npz", **media)
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "family_processors.py"), str(root)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(SCRIPTS / "torchvision_ops"), str(TORCHVISION)]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(np.load(root / "processed.npz"))


@pytest.mark.parametrize("family", list(MROPE))
def test_token_ids_are_the_processors_own(
    engines: dict[str, HFEngine], media: dict[str, Any], processed: dict[str, Any], family: str
) -> None:
    made = engines[family].prompt(chat(family, media))
    mine = [i for chunk in (*made.chunks, made.tail) for i in chunk.key.token_ids]
    assert mine == processed[f"{family}/input_ids"][0].tolist()
    kinds = [chunk.key.kind for chunk in made.chunks if chunk.media is not None]
    assert kinds == ["image", "video", "audio"][: len(kinds)]
    assert len(kinds) == 1 + (family in WITH_VIDEO) + (family in WITH_AUDIO)


@pytest.mark.parametrize("family", list(MROPE))
def test_inputs_of_the_towers_are_the_processors_own_bit_for_bit(
    engines: dict[str, HFEngine], media: dict[str, Any], processed: dict[str, Any], family: str
) -> None:
    for chunk in engines[family].prompt(chat(family, media)).chunks:
        if chunk.media is None:
            continue
        modality = engines[family].family.modality(chunk.key.kind)
        assert modality is not None
        for name in modality.inputs:
            mine, theirs = chunk.media.inputs[name].numpy(), processed[f"{family}/{name}"]
            if chunk.key.kind == "audio":  # the engine keeps the clip without its padding
                length = int(processed[f"{family}/feature_attention_mask"].sum())
                theirs = theirs[..., :length]
                assert mine.shape[-1] == length < 20011
            assert mine.dtype == theirs.dtype or name == "feature_attention_mask"
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("qwen2_5_vl", "second_per_grid_ts"),
        ("qwen2_5_omni", "video_second_per_grid"),
        ("qwen3_omni_moe", "video_second_per_grid"),
    ],
)
def test_seconds_of_a_temporal_patch_are_the_processors_own(
    engines: dict[str, HFEngine],
    media: dict[str, Any],
    processed: dict[str, Any],
    family: str,
    name: str,
) -> None:
    made = engines[family].prompt(chat(family, media))
    video = next(chunk.media for chunk in made.chunks if chunk.key.kind == "video")
    assert video is not None
    np.testing.assert_array_equal(
        video.inputs["second_per_grid"].numpy(), processed[f"{family}/{name}"]
    )
