"""What the suite measured, for build/vllm.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Figures:
    """Sections of figures; written at the end, over those of the same name from an earlier run."""

    def __init__(self) -> None:
        self._sections: dict[str, dict[str, Any]] = {}

    def add(self, section: str, name: str, values: Any) -> None:
        """One entry of a section."""
        self._sections.setdefault(section, {})[name] = values

    def highest(self, section: str, name: str, **values: float) -> None:
        """Each value, or the entry's own where that is higher."""
        entry = self._sections.setdefault(section, {}).setdefault(name, {})
        for key, value in values.items():
            entry[key] = max(value, entry.get(key, value))

    def write(self, path: Path) -> None:
        """Merge into the file."""
        if not self._sections:
            return
        held = json.loads(path.read_text()) if path.exists() else {}
        for section, entries in self._sections.items():
            held[section] = held.get(section, {}) | entries
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(held, indent=2) + "\n")
