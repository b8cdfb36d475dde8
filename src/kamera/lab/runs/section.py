"""What every run's section says first: what was run, on what, from which source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kamera.errors import ConfigError
from kamera.lab.environment import environment
from kamera.lab.runs.commit import source_commit


def begin(models: Sequence[Path], num_items: int, *, command: str, seed: int) -> dict[str, Any]:
    """A section without its models.

    Args:
        models: checkpoint folders; a folder's name is the model's.
        num_items: of a task's test split.
        command: what repeats it.

    Raises:
        ConfigError: fewer than one item, no model, or two folders of one name.
    """
    if num_items < 1:
        raise ConfigError(f"Invalid number of items: expected at least 1, got {num_items}")
    names = [folder.name for folder in models]
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"Invalid models: expected folders of different names, got {names}")
    return {
        "command": command,
        "n": num_items,
        "seed": seed,
        "commit": source_commit().json(),
        "environment": environment(),
        "models": {},
    }
