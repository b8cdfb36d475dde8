"""What the Transformers engine refuses before it runs anything."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kamera import packaged_model
from kamera.engines.hf import HFEngine, version
from kamera.engines.hf.families import FAMILIES, family_of
from kamera.errors import (
    ConfigError,
    EngineVersionError,
    KameraError,
    UnsupportedModelError,
    UnsupportedRopeError,
)


@pytest.mark.parametrize("found", ["5.24.0", "5.24.9", "5.24.0.dev0", "5.24rc1"])
def test_tested_versions_pass(found: str) -> None:
    version.check(found)


@pytest.mark.parametrize("found", ["5.23.9", "4.57.1", "5.25.0", "5.25.0rc1", "6.0.0", "main", "5"])
def test_other_versions_are_refused_with_the_way_out(found: str) -> None:
    with pytest.raises(EngineVersionError, match="pip install") as caught:
        version.check(found)
    assert found in str(caught.value)


def test_missing_transformers_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "from kamera.errors import EngineVersionError\n"
        "try:\n    import kamera.engines.hf\n"
        "except EngineVersionError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "kamera-kv[hf]" in done.stdout


CONFIG = json.loads((packaged_model() / "config.json").read_text())


def config(model_type: Any = "qwen2_5_vl", **text: Any) -> dict[str, Any]:
    return CONFIG | {"model_type": model_type, "text_config": CONFIG["text_config"] | text}


def test_a_supported_family_is_found() -> None:
    assert family_of(config()) is FAMILIES["qwen2_5_vl"]


@pytest.mark.parametrize("model_type", ["mamba", "qwen3_5", "qwen2_5_vl_text", "no such"])
def test_other_model_types_are_refused_by_name(model_type: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        family_of(config(model_type))
    assert repr(model_type) in str(caught.value)


@pytest.mark.parametrize("model_type", [None, "", 3])
def test_a_config_without_a_model_type_is_refused(model_type: Any) -> None:
    with pytest.raises(ConfigError, match="model_type"):
        family_of(config(model_type))


@pytest.mark.parametrize("kind", ["linear_attention", "chunked_attention"])
def test_one_layer_that_holds_no_full_kv_is_enough_to_refuse(kind: str) -> None:
    layers = ["full_attention"] * 7 + [kind]
    with pytest.raises(UnsupportedModelError, match=kind):
        family_of(config(layer_types=layers))


def changed_checkpoint(tiny: Path, folder: Path, **changes: object) -> Path:
    shutil.copytree(tiny, folder)
    path = folder / "config.json"
    read = json.loads(path.read_text())
    for name, value in changes.items():
        in_text = name in read["text_config"] and name != "model_type"
        (read["text_config"] if in_text else read)[name] = value
    path.write_text(json.dumps(read))
    return folder


def test_a_checkpoint_of_another_model_type_is_refused(tiny: Path, tmp_path: Path) -> None:
    folder = changed_checkpoint(tiny, tmp_path / "m", model_type="no_such_model")
    with pytest.raises(UnsupportedModelError, match="no_such_model"):
        HFEngine.from_pretrained(folder)


def test_dynamic_rope_is_served_up_to_where_it_switches(tiny: Path, tmp_path: Path) -> None:
    rope = {"rope_type": "dynamic", "rope_theta": 1e6, "factor": 4.0, "mrope_section": [4, 6, 6]}
    folder = changed_checkpoint(
        tiny, tmp_path / "m", rope_parameters=rope, max_position_embeddings=64
    )
    engine = HFEngine.from_pretrained(folder)
    chunk = engine.text_chunk("what color is the shape?")
    near = engine.prefill([chunk], {}, start=0).kv.to_canonical(chunk.layout.at(0), engine.spec)
    assert near.at(chunk.layout.at(60 - chunk.extent), engine.spec).num_tokens == chunk.num_tokens
    with pytest.raises(UnsupportedRopeError, match="dynamic"):
        near.at(chunk.layout.at(70 - chunk.extent), engine.spec)


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ConfigError, match=r"config\.json"):
            HFEngine.from_pretrained(folder)


@pytest.mark.parametrize(
    "lost", ["model.safetensors", "tokenizer.json", "preprocessor_config.json"]
)
def test_a_checkpoint_that_lacks_a_part_is_refused(tiny: Path, tmp_path: Path, lost: str) -> None:
    folder = changed_checkpoint(tiny, tmp_path / "m")
    for path in folder.glob(lost.replace("model", "model*")):
        path.unlink()
    with pytest.raises(KameraError):
        HFEngine.from_pretrained(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_broken_config_is_refused(tiny: Path, tmp_path: Path, content: str) -> None:
    folder = changed_checkpoint(tiny, tmp_path / "m")
    (folder / "config.json").write_text(content)
    with pytest.raises(KameraError):
        HFEngine.from_pretrained(folder)
