"""`Sums`: what the halves count, by name."""

from __future__ import annotations


class Sums:
    """Numbers that are added to and taken. A label stands behind a slash: `chunks_served/exact`."""

    def __init__(self) -> None:
        self._sums: dict[str, int | float] = {}

    def add(self, name: str, value: int | float = 1, label: str | None = None) -> None:
        """Add to a counter."""
        key = name if label is None else f"{name}/{label}"
        self._sums[key] = self._sums.get(key, 0) + value

    def take(self) -> dict[str, int | float]:
        """What was counted since the last call."""
        taken, self._sums = self._sums, {}
        return taken
