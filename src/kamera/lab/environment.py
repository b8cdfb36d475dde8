"""What a report ran on: versions, machine, threads."""

import platform
from importlib import metadata
from typing import Any

import torch

import kamera


def environment() -> dict[str, Any]:
    """The facts that every report carries; no name or path of the machine."""
    return {
        "kamera": kamera.__version__,
        "torch": torch.__version__,
        "transformers": metadata.version("transformers"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "num_threads": torch.get_num_threads(),
    }
