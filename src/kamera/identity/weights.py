"""The revision of a checkpoint, read from its bytes."""

import hashlib
from pathlib import Path

from kamera.errors import ConfigError
from kamera.identity.digests import digest

__all__ = ["weights_digest"]

WEIGHTS_VERSION = 1


def weights_digest(folder: str | Path, config_name: str = "config.json") -> str:
    """SHA-256 over the contents of a checkpoint's safetensors files and its config.

    Neither the folder's name, nor a file's name or time plays a part, so a copy or a renamed shard
    keeps its digest and a file that changed in place doesn't. An adapter's folder has
    `config_name="adapter_config.json"`. Reads every byte: call it once per load and keep it.
    Raises `ConfigError` where there are no weights or no config.
    """
    root = Path(folder)
    weights = [path for path in root.glob("*.safetensors") if path.is_file()]
    if not weights:
        raise ConfigError(
            f"No weights in {root}: expected at least one .safetensors file, got none. "
            "Save the checkpoint with safe serialization, and point to the folder that holds it."
        )
    config = root / config_name
    if not config.is_file():
        raise ConfigError(
            f"No {config_name} in {root}: expected it beside the weights; it decides the KV too."
        )
    contents = {
        "weights": sorted(_file_digest(path) for path in weights),
        "config": _file_digest(config),
    }
    return digest("kamera.weights", WEIGHTS_VERSION, contents)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
