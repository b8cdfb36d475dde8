"""The `--model` option: a checkpoint folder, or the name of a packaged one."""

from pathlib import Path

import kamera
from kamera.errors import ConfigError

HELP = "Checkpoint folder, or the name of a packaged model; nano-gqa if not given."


def model_folder(given: Path | None) -> Path | None:
    """The folder that the option means; a folder of that name wins over a packaged model."""
    if given is None or given.exists() or str(given) not in kamera.packaged_models():
        return given
    return kamera.packaged_model(str(given))


def checkpoint(given: Path) -> Path:
    """The folder that the option means, which is there.

    Raises:
        ConfigError: there is neither such a folder nor such a packaged model.
    """
    folder = model_folder(given) or given
    if not folder.is_dir():
        names = ", ".join(kamera.packaged_models())
        raise ConfigError(
            f"No checkpoint at {given}: expected a folder that holds one, or the name of a packaged model "
            f"({names})"
        )
    return folder


def model_name(given: str) -> str:
    """What an engine is to load: a folder as it is, a packaged model's folder, or a name on the hub."""
    if not Path(given).exists() and given in kamera.packaged_models():
        return str(kamera.packaged_model(given))
    return given
