"""`Window`: an ordered, immutable list of named slots, and the verbs that edit it.

Touches no tensor. `kamera.session` carries a window's verbs out on an engine.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kamera.errors import ChunkNotFoundError, ConfigError


@dataclass(frozen=True)
class Slot:
    """A place in the window: the name that the caller knows it by, and the chunk's digest."""

    name: str
    chunk: str


@dataclass(frozen=True)
class Window:
    """The slots in order, behind a pinned prefix; and those that left, so that they can be recalled.

    `capacity` bounds the slots that are in (the prefix isn't counted), `max_evicted` those that left: the
    ones that left first are forgotten. None is no bound.
    """

    capacity: int | None = None
    slots: tuple[Slot, ...] = ()
    evicted: tuple[Slot, ...] = ()
    max_evicted: int | None = None

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 1:
            raise ConfigError(
                f"Invalid window capacity: expected at least 1 chunk, or None for no bound, "
                f"got {self.capacity}"
            )
        if self.max_evicted is not None and self.max_evicted < 0:
            raise ConfigError(
                f"Invalid max_evicted: expected at least 0, or None for no bound, got {self.max_evicted}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the window, in order."""
        return tuple(slot.name for slot in self.slots)

    def admit(self, slot: Slot) -> Window:
        """Append a chunk; when the window is full the oldest leaves first.

        Raises:
            ConfigError: the name is taken, in the window or among those that left.
        """
        known = [*self.names, *(gone.name for gone in self.evicted)]
        if slot.name in known:
            raise ConfigError(f"Name {slot.name!r} is taken: expected a new name for each chunk")
        full = self.capacity is not None and len(self.slots) >= self.capacity
        room = self.slide(1) if full else self
        return replace(room, slots=(*room.slots, slot))

    def slide(self, count: int = 1) -> Window:
        """The `count` oldest chunks leave.

        Raises:
            ConfigError: fewer than `count` chunks are in, or `count` isn't a positive whole number.
        """
        if not self.slots:
            raise ConfigError("Can't slide: no chunk is in the window; expected one to be admitted")
        if type(count) is not int or not 1 <= count <= len(self.slots):
            raise ConfigError(
                f"Can't slide by {count!r:.80}: expected a whole number from 1 to {len(self.slots)}, the "
                "chunks in the window"
            )
        left = self._remembered(self.evicted + self.slots[:count])
        return replace(self, slots=self.slots[count:], evicted=left)

    def reorder(self, names: Sequence[str]) -> Window:
        """The same chunks in another order.

        Raises:
            ChunkNotFoundError: a name isn't in the window.
            ConfigError: a name is missing or given twice.
        """
        if isinstance(names, str):
            raise ConfigError(f"Invalid order: expected a list of names, got the text {names!r}")
        by_name = {slot.name: slot for slot in self.slots}
        for name in names:
            self._require(name, tuple(by_name), "the window")
        if sorted(names) != sorted(by_name):
            raise ConfigError(
                f"Invalid order: expected each of {list(by_name)} once, got {list(names)}"
            )
        return replace(self, slots=tuple(by_name[name] for name in names))

    def recall(self, name: str, at: int | None = None) -> Window:
        """A chunk that left comes back, at index `at` (None: at the end). When full the oldest leaves.

        Raises:
            ChunkNotFoundError: no chunk of this name has left.
            ConfigError: `at` isn't a whole number in range.
        """
        if name in self.names:
            raise ChunkNotFoundError(
                f"Chunk {name!r} is in the window: only one that left can be recalled"
            )
        gone = {slot.name: slot for slot in self.evicted}
        self._require(name, tuple(gone), "the evicted chunks")
        full = self.capacity is not None and len(self.slots) >= self.capacity
        room = self.slide(1) if full else self
        index = len(room.slots) if at is None else at
        if type(index) is not int or not 0 <= index <= len(room.slots):
            raise ConfigError(
                f"Invalid index: expected a whole number from 0 to {len(room.slots)}, a place in the "
                f"window, or None for its end, got {at!r:.80}"
            )
        slots = (*room.slots[:index], gone[name], *room.slots[index:])
        evicted = tuple(slot for slot in room.evicted if slot.name != name)
        return replace(room, slots=slots, evicted=evicted)

    def show(self, slots: Sequence[Slot]) -> Window:
        """Exactly these slots, in this order. Those that are no longer in have left.

        Raises:
            ConfigError: more than the window holds, or a name twice.
        """
        names = [slot.name for slot in slots]
        if len(set(names)) < len(names):
            raise ConfigError(f"Invalid window: expected each chunk once, got {names}")
        if self.capacity is not None and len(slots) > self.capacity:
            raise ConfigError(
                f"Window is full: expected at most {self.capacity} chunks, got {len(slots)}"
            )
        left = tuple(slot for slot in (*self.evicted, *self.slots) if slot.name not in names)
        return replace(self, slots=tuple(slots), evicted=self._remembered(left))

    def _remembered(self, evicted: tuple[Slot, ...]) -> tuple[Slot, ...]:
        """Those that left last."""
        count = len(evicted) if self.max_evicted is None else self.max_evicted
        return evicted[len(evicted) - min(count, len(evicted)) :]

    @staticmethod
    def _require(name: str, names: tuple[str, ...], where: str) -> None:
        if name in names:
            return
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; it holds {list(names)}"
        raise ChunkNotFoundError(f"No chunk {name!r} in {where}{hint}")
