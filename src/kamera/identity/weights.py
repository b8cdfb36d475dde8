"""The revision of a checkpoint, read from its bytes."""

import hashlib
import json
from pathlib import Path

from kamera.errors import ConfigError
from kamera.identity.digests import digest

__all__ = ["weights_digest"]

WEIGHTS_VERSION = 2


def weights_digest(
    folder: str | Path, config_name: str = "config.json", weights_name: str = "model"
) -> str:
    """SHA-256 over the weights that a loader takes from a folder, by file name, and its config.

    These are `model.safetensors`, or else the shards that `model.safetensors.index.json` names, and the
    index. Other files play no part, and neither do the folder's name and times: a copy keeps its digest,
    and a file that changed in place, or changed places with another, doesn't. An adapter's folder has
    `config_name="adapter_config.json"` and `weights_name="adapter_model"`. Reads every byte: call it
    once per load and keep it.

    Raises:
        ConfigError: there are no such weights, or no config.
    """
    root = Path(folder)
    weights = _weights_files(root, weights_name)
    config = root / config_name
    if not config.is_file():
        raise ConfigError(
            f"No {config_name} in {root}: expected it beside the weights; it decides the KV too."
        )
    contents = {
        "weights": {path.relative_to(root).as_posix(): _file_digest(path) for path in weights},
        "config": _file_digest(config),
    }
    return digest("kamera.weights", WEIGHTS_VERSION, contents)


def _weights_files(root: Path, name: str) -> list[Path]:
    single, index = root / f"{name}.safetensors", root / f"{name}.safetensors.index.json"
    if single.is_file():
        return [single]
    if not index.is_file():
        raise ConfigError(
            f"No weights in {root}: expected {single.name} or {index.name}, got neither. "
            "Save the checkpoint with safe serialization, and point to the folder that holds it."
        )
    try:
        shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        files = [root / shard for shard in shards]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConfigError(f"Can't read {index}: expected a weight_map of file names") from error
    missing = [path.name for path in files if not path.is_file()]
    if missing or not files:
        raise ConfigError(f"Weights are missing in {root}: {index.name} names {missing or 'none'}")
    return [index, *files]


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
