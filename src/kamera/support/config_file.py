"""Reading a config.json from a folder or a file."""

import json
from pathlib import Path
from typing import Any

from kamera.errors import ConfigError
from kamera.support.shown import shown

MAX_BYTES = 16 * 1024 * 1024
"""No config is larger: Phi's, with its long factors, has a few kB."""


def read_config(path: str | Path) -> dict[str, Any]:
    """The config of a checkpoint folder, or of a config.json.

    Raises:
        ConfigError: nothing there, not JSON (a Git LFS pointer or a web page is named as such), not an
            object, or without a model type.
    """
    file = _find(Path(path))
    config = _parse(file)
    if not isinstance(config, dict):
        raise ConfigError(
            f"{file} isn't a model's config: expected a JSON object, got {type(config).__name__}"
        )
    if not config.get("model_type"):
        raise ConfigError(
            f"{file} names no model_type: expected a model's config.json{_other_kind(config)}"
        )
    return config


def _find(path: Path) -> Path:
    if path.is_dir():
        file = path / "config.json"
        if not file.is_file():
            raise ConfigError(
                f"No config.json in {path}: expected a checkpoint's folder{_below(path)}"
            )
        return file
    if not path.is_file():
        raise ConfigError(
            f"No such file or folder: {path}. Expected a checkpoint's folder or its config.json; nothing is "
            "downloaded"
        )
    return path


def _below(path: Path) -> str:
    """Folders one level below that are checkpoints, or files that tell what this folder is."""
    found = sorted(folder.parent.name for folder in path.glob("*/config.json"))
    if found:
        return f". Folders in it have one: {', '.join(found[:5])}"
    if (path / "model_index.json").is_file():
        return ". It holds model_index.json: a diffusion pipeline"
    if any(path.glob("*.gguf")):
        return ". It holds GGUF files, which carry no config.json"
    return ""


def _parse(file: Path) -> Any:
    try:
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise ConfigError(f"{file} has {size:,} bytes: expected a config.json of a few kB")
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"Can't read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} isn't text: expected a config.json{_weights(file)}") from error
    start = text.lstrip()
    if start.startswith("version https://git-lfs.github.com/"):
        raise ConfigError(
            f"{file} is a Git LFS pointer: expected the file itself. Run git lfs pull"
        )
    if start.startswith("<"):
        raise ConfigError(
            f"{file} is a web page: expected a config.json. Download the raw file, and log in if its "
            "repository is gated"
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} isn't JSON: {error}") from error


def _weights(file: Path) -> str:
    return ", got weights" if file.suffix in (".safetensors", ".bin", ".pt", ".gguf") else ""


def _other_kind(config: dict[str, Any]) -> str:
    if "base_model_name_or_path" in config:
        return "; this is an adapter's: point to its base model"
    if "image_processor_type" in config or "processor_class" in config:
        return "; this is a processor's"
    if "architectures" in config:
        return f"; it names {shown(config['architectures'])}"
    return ""
