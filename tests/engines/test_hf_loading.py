"""What a checkpoint must have before it is served: every tensor, by the names that are loaded."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "copy"))


def rewrite(folder: Path, change: Any) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def test_a_checkpoint_that_lacks_a_tensor_is_refused(copy: Path) -> None:
    """Transformers would draw it at random, another one in every process, under one key."""
    lost = "layers.1.mlp.down_proj"
    rewrite(copy, lambda weights: {k: v for k, v in weights.items() if lost not in k})
    with pytest.raises(ConfigError, match="down_proj"):
        HFEngine.from_pretrained(copy)


def test_a_checkpoint_of_other_names_is_refused(copy: Path) -> None:
    rewrite(copy, lambda weights: {f"transformer.{k}": v for k, v in weights.items()})
    with pytest.raises(ConfigError, match="lack"):
        HFEngine.from_pretrained(copy)


def test_a_tensor_of_another_shape_is_refused(copy: Path) -> None:
    rewrite(copy, lambda w: {k: torch.zeros(3, 3) if "gate" in k else v for k, v in w.items()})
    with pytest.raises(ConfigError):
        HFEngine.from_pretrained(copy)


def test_more_layers_than_the_file_has_are_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] += 1
    config["text_config"].pop("layer_types", None)
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="lack"):
        HFEngine.from_pretrained(copy)


def test_an_adapter_in_the_folder_is_refused(copy: Path) -> None:
    (copy / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError, match="merge"):
        HFEngine.from_pretrained(copy)


def test_weights_that_are_no_safetensors_are_never_read(copy: Path) -> None:
    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    with pytest.raises(ConfigError):
        HFEngine.from_pretrained(copy)


def test_a_quantizer_that_is_not_installed_is_a_config_error(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="bitsandbytes"):
        HFEngine.from_pretrained(copy)
