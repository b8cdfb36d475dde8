"""A model's config before anything starts, and whether Kamera can serve it in vLLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kamera.engines.vllm.families import FAMILIES
from kamera.errors import ConfigError, UnsupportedModelError
from kamera.support import Verdict, examine, read_config


def checked(model: str, revision: str | None = None) -> Verdict:
    """The verdict on a model that can be served.

    Args:
        model: a checkpoint's folder, or `owner/name` on the Hugging Face hub.
        revision: of the hub's repository.

    Raises:
        ConfigError: nothing there, or no config.
        UnsupportedModelError: Kamera can't serve it, with the reason; or the connector has no row for it.
    """
    if Path(model).is_file():
        raise ConfigError(f"Invalid model {model}: expected the checkpoint's folder, got a file")
    if not Path(model).exists() and not _is_hub_name(model):
        raise ConfigError(
            f"No folder {model}: expected a checkpoint's folder, owner/name on the hub, or the name of a "
            "packaged model, as nano-gqa"
        )
    verdict = examine(_config(model, revision))
    hint = "vLLM alone may serve it: vllm serve"
    if verdict.status == "refused":
        raise UnsupportedModelError(
            f"{model} can't be served. {verdict.explain()} ({hint} {model})"
        )
    if verdict.model_type not in FAMILIES:
        raise UnsupportedModelError(
            f"{model} is of type {verdict.model_type}, which the vLLM connector has no row for: expected one "
            f"of {', '.join(sorted(FAMILIES))} ({hint} {model})"
        )
    return verdict


def _config(model: str, revision: str | None) -> dict[str, Any]:
    if Path(model).exists() or not _is_hub_name(model):
        return read_config(model)
    return read_config(_downloaded(model, revision))


def _is_hub_name(model: str) -> bool:
    owner, slash, name = model.partition("/")
    return bool(owner and slash and name) and "/" not in name and owner[0] not in ".~"


def _downloaded(model: str, revision: str | None) -> str:
    """The hub's config.json, from its cache or the network: vLLM is about to load the rest the same way."""
    try:
        from huggingface_hub import hf_hub_download

        return str(hf_hub_download(model, "config.json", revision=revision))
    except Exception as error:  # the hub's errors are many; each means that there is no config
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"No folder {model}, and no such model on the hub ({reason}): expected a checkpoint's folder, a "
            f"packaged model's name or owner/name"
        ) from error
