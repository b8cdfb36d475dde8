"""Which commit of this project's source a report was made from."""

from __future__ import annotations

import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import kamera

_PLACE = "src/kamera/"
"""Of the package in this project's checkout."""


@dataclass(frozen=True)
class Commit:
    """Of the source.

    Attributes:
        id: 40 hex digits; None where the package isn't in a checkout of this project, or git isn't there.
        changed: whether a tracked file of the package differs from it; None without an id.
    """

    id: str | None
    changed: bool | None

    def json(self) -> dict[str, Any]:
        """For reports."""
        return asdict(self)


def source_commit(package: Path | None = None) -> Commit:
    """Of the checkout that `package` lies in: by default the package that runs."""
    folder = package or Path(kamera.__file__).parent
    # Elsewhere it is installed, maybe in another's checkout.
    if _git(folder, "rev-parse", "--show-prefix") != _PLACE:
        return Commit(None, None)
    found = _git(folder, "rev-parse", "HEAD")
    if not found:
        return Commit(None, None)
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return Commit(found, changes != "")


def _git(folder: Path, *args: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *args], check=False, capture_output=True, text=True
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
