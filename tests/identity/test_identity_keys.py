"""Every field of every key counts; the same key is the same in every process."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kamera.errors import ConfigError
from kamera.identity import (
    Adapter,
    AntecedentKey,
    ChunkKey,
    MediaIdentity,
    ModelKey,
    Shard,
    weights_digest,
)

W1, W2 = "1" * 64, "2" * 64
PIXELS = np.arange(24, dtype=np.float32).reshape(4, 6)
GRID = np.array([[1, 2, 3]])


def model(**changes: Any) -> ModelKey:
    fields: dict[str, Any] = {
        "model_id": "kamera/nano-gqa",
        "model_type": "qwen2_5_vl",
        "weights_digest": W1,
        "dtype": "bfloat16",
        "quantization": None,
        "rope": {"inv_freq": [1.0, 0.5], "sections": [1, 1, 0], "layout": "half"},
        "layout": {"kind": "gqa", "num_layers": 8, "num_kv_heads": 2, "head_dim": 32},
        "shard": Shard(0, 1, 0, 8, 0, 2),
        "adapter": None,
        "numerics": "transformers-5.24/sdpa",
    }
    return ModelKey(**(fields | changes))


def image(**changes: Any) -> MediaIdentity:
    fields: dict[str, Any] = {
        "inputs": {"pixel_values": PIXELS, "image_grid_thw": GRID},
        "processor": {"patch_size": 14, "mean": [0.5, 0.5, 0.5]},
        "source": {"mode": "RGB", "size": [30, 100]},
    }
    return MediaIdentity(**(fields | changes))


def chunk(**changes: Any) -> ChunkKey:
    fields: dict[str, Any] = {
        "model": model(),
        "tenant": None,
        "kind": "image",
        "token_ids": (7, 9, 9, 8),
        "contents": (image(),),
    }
    return ChunkKey(**(fields | changes))


MODEL_CHANGES: dict[str, list[Any]] = {
    "model_id": ["kamera/other"],
    "model_type": ["qwen3_vl"],
    "weights_digest": [W2],
    "dtype": ["float16"],
    "quantization": ["", "fp8"],
    "rope": [
        {"inv_freq": [1.0, 0.25], "sections": [1, 1, 0], "layout": "half"},
        {"inv_freq": [1.0, 0.5], "sections": [1, 0, 1], "layout": "half"},
        {"inv_freq": [1.0, 0.5], "sections": [1, 1, 0], "layout": "interleaved"},
    ],
    "layout": [{"kind": "gqa", "num_layers": 8, "num_kv_heads": 4, "head_dim": 32}],
    "shard": [
        Shard(0, 2, 0, 8, 0, 2),
        Shard(0, 1, 1, 8, 0, 2),
        Shard(0, 1, 0, 7, 0, 2),
        Shard(0, 1, 0, 8, 1, 2),
        Shard(0, 1, 0, 8, 0, 1),
    ],
    "adapter": [Adapter("lora", W1), Adapter("lora", W2), Adapter("", W1)],
    "numerics": ["vllm-0.11/sdpa"],
}
IMAGE_CHANGES: dict[str, list[Any]] = {
    "inputs": [
        {"pixel_values": PIXELS.reshape(6, 4), "image_grid_thw": GRID},
        {"pixel_values": PIXELS + 1, "image_grid_thw": GRID},
        {"pixel_values": PIXELS.astype(np.float64), "image_grid_thw": GRID},
        {"pixel_values": PIXELS.view(np.int32), "image_grid_thw": GRID},
        {"pixel_values": PIXELS, "image_grid_thw": GRID[:, ::-1]},
        {"pixel_values": PIXELS, "video_grid_thw": GRID},
        {"pixel_values": PIXELS},
    ],
    "processor": [{"patch_size": 16, "mean": [0.5, 0.5, 0.5]}, {}],
    "source": [
        {"mode": "P", "size": [30, 100]},
        {"mode": "RGB", "size": [100, 30]},
        {"mode": "RGB", "size": [30, 100], "palette": b""},
        {},
    ],
}
CHUNK_CHANGES: dict[str, list[Any]] = {
    "model": [model(dtype="float16")],
    "tenant": ["", "a", "None"],
    "kind": ["video", "audio"],
    "token_ids": [(7, 9, 9, 9), (7, 9, 9), (7, 9, 9, 8, 8)],
    "contents": [(image(source={"mode": "L"}),), (image(), image())],
    "position_layout": [2],
}
ANTECEDENT_CHANGES: dict[str, list[Any]] = {
    "chunks": [(), (W1,), (W2, W1), (W1, W2, W2)],
}

KEYS = {
    "model": (model, MODEL_CHANGES),
    "image": (image, IMAGE_CHANGES),
    "chunk": (chunk, CHUNK_CHANGES),
    "antecedent": (lambda chunks=(W1, W2): AntecedentKey(chunks), ANTECEDENT_CHANGES),
}
CASES = [(n, f, v) for n, (_, changes) in KEYS.items() for f in changes for v in changes[f]]


@pytest.mark.parametrize(("name", "field", "value"), CASES)
def test_any_field_changes_the_digest(name: str, field: str, value: Any) -> None:
    make, _ = KEYS[name]
    assert make(**{field: value}).digest != make().digest


@pytest.mark.parametrize("name", KEYS)
def test_no_two_changes_share_a_digest(name: str) -> None:
    make, changes = KEYS[name]
    digests = {make(**{field: value}).digest for field in changes for value in changes[field]}
    assert len(digests) == sum(len(values) for values in changes.values())


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (ModelKey, MODEL_CHANGES),
        (MediaIdentity, IMAGE_CHANGES),
        (ChunkKey, CHUNK_CHANGES),
        (AntecedentKey, ANTECEDENT_CHANGES),
    ],
)
def test_every_field_has_a_case(kind: type, changes: dict[str, list[Any]]) -> None:
    fields = {field.name for field in dataclasses.fields(kind) if field.init}
    annotated = {name for name, hint in kind.__annotations__.items() if "InitVar" in repr(hint)}
    assert fields | annotated == set(changes)


GOLDEN = {
    "model": "e7cd5ea9c1345babebbf0a4fc26a2ea3847ec8339e67fb3f620d71a998e2b41d",
    "image": "f458c2edc1bab946b5726ad025a3b68ccbebf8fba127e2e296c806fa65cf3a21",
    "chunk": "bf46f2217b615c03de018eff80d27a7a6af3bf3c018118032784315bb8097808",
    "antecedent": "3d71da534009a4362592aba4b8f8cd56fcb0ffd56cbddcfbba3074d7f972568a",
}


@pytest.mark.parametrize("name", KEYS)
def test_golden_digests_of_the_keys(name: str) -> None:
    assert KEYS[name][0]().digest == GOLDEN[name]


def test_another_process_with_another_hash_seed_makes_the_same_keys() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_identity_keys as tests\n"
        "print(*(make().digest for make, _ in tests.KEYS.values()))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    found = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [make().digest for make, _ in KEYS.values()]


def test_torch_and_numpy_pixels_are_one_image() -> None:
    inputs = {"pixel_values": torch.from_numpy(PIXELS.copy()), "image_grid_thw": GRID}
    assert image(inputs=inputs) == image()


def test_the_pixels_are_not_kept() -> None:
    assert not any(isinstance(value, np.ndarray) for value in vars(image()).values())


def test_a_settings_dict_that_changes_later_changes_no_key() -> None:
    settings: dict[str, Any] = {"patch_size": 14, "mean": [0.5, 0.5, 0.5]}
    key = image(processor=settings)
    settings["mean"][0] = 0.0
    assert key.processor == image().processor
    assert key == image()


def test_keys_that_python_calls_equal_are_told_apart() -> None:
    assert image(processor={"resize": True}) != image(processor={"resize": 1})
    assert model(rope={"theta": 1}) != model(rope={"theta": 1.0})


def test_the_set_digest_forgets_order_and_counts_repeats() -> None:
    ordered, other = AntecedentKey((W1, W2)), AntecedentKey((W2, W1))
    assert ordered.set_digest == other.set_digest
    assert ordered.set_digest != ordered.digest
    assert AntecedentKey((W1, W1)).set_digest != AntecedentKey((W1,)).set_digest


def test_an_antecedent_is_made_of_chunks() -> None:
    text = chunk(kind="text", contents=())
    assert AntecedentKey.of([chunk(), text]).chunks == (chunk().digest, text.digest)


@pytest.mark.parametrize(
    "make",
    [
        lambda: chunk(kind="text"),
        lambda: chunk(contents=()),
        lambda: chunk(kind="smell"),
        lambda: chunk(token_ids=()),
        lambda: chunk(token_ids=(True, 1)),
        lambda: chunk(token_ids=(-1,)),
        lambda: chunk(token_ids=(1 << 63,)),
        lambda: chunk(tenant="\ud800"),
        lambda: chunk(tenant="x" * 2000),
        lambda: model(weights_digest="short"),
        lambda: model(dtype=""),
        lambda: model(layout={}),
        lambda: model(rope={"theta": object()}),
        lambda: Shard(1, 1, 0, 8, 0, 2),
        lambda: Shard(0, 1, 8, 8, 0, 2),
        lambda: Shard(0, 1, 0, 8, 2, 1),
        lambda: Adapter("lora", W1.replace("1", "A")),
        lambda: image(inputs={}),
        lambda: AntecedentKey(("nothing",)),
    ],
)
def test_what_cannot_be_right_is_refused(make: Any) -> None:
    with pytest.raises(ConfigError):
        make()


def checkpoint(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_bytes(b"{}")
    (folder / "model-1.safetensors").write_bytes(b"one")
    (folder / "model-2.safetensors").write_bytes(b"two")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_a_copy_of_a_checkpoint_has_its_digest(tmp_path: Path) -> None:
    one, two = checkpoint(tmp_path / "one"), checkpoint(tmp_path / "two")
    os.utime(two / "config.json", (0, 0))
    (two / "other.safetensors").write_bytes(b"what no loader takes")
    assert (
        weights_digest(one)
        == weights_digest(str(two))
        == "a8d4750385df22bf3bbbf0ffb09a9c9d894d8f4224b54a738a890d780c94b653"
    )


def test_files_that_change_places_change_the_digest(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "one")
    before = weights_digest(folder)
    (folder / "model-1.safetensors").write_bytes(b"two")
    (folder / "model-2.safetensors").write_bytes(b"one")
    assert weights_digest(folder) != before


def test_another_index_over_the_same_shards_is_another_checkpoint(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "one")
    before = weights_digest(folder)
    index = {"weight_map": {"b": "model-1.safetensors", "a": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert weights_digest(folder) != before


def test_a_single_file_comes_before_an_index_as_in_the_loaders(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "one")
    (folder / "model.safetensors").write_bytes(b"one")
    before = weights_digest(folder)
    (folder / "model-1.safetensors").write_bytes(b"six")
    assert weights_digest(folder) == before
    (folder / "model.safetensors").write_bytes(b"six")
    assert weights_digest(folder) != before


@pytest.mark.parametrize(
    "index", ["[]", "{", '{"weight_map": {}}', '{"weight_map": {"a": "gone"}}']
)
def test_an_index_that_names_no_whole_set_of_shards_is_refused(tmp_path: Path, index: str) -> None:
    folder = checkpoint(tmp_path / "one")
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ConfigError, match=r"index\.json"):
        weights_digest(folder)


@pytest.mark.parametrize("name", ["config.json", "model-1.safetensors", "model-2.safetensors"])
def test_a_file_that_changes_in_place_changes_the_digest(tmp_path: Path, name: str) -> None:
    folder = checkpoint(tmp_path / "one")
    before = weights_digest(folder)
    status = (folder / name).stat()
    (folder / name).write_bytes(b"xyz"[: status.st_size])
    os.utime(folder / name, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert weights_digest(folder) != before


def test_a_folder_without_weights_or_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No weights"):
        weights_digest(tmp_path)
    folder = checkpoint(tmp_path / "one")
    (folder / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"No config\.json"):
        weights_digest(folder)
