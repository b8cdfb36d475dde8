"""The windows that an agent asks for, one after another. Pure: `kamera.window`'s verbs over frame indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kamera.lab.replay.settings import ReplaySettings
from kamera.window import Slot, Window

Label = Literal["admit", "look back", "reorder"]


@dataclass(frozen=True)
class Step:
    """One request: what the agent did, and the window that it leaves, as frame indices in order."""

    label: Label
    window: tuple[int, ...]

    @property
    def name(self) -> str:
        """For axes and logs: the label, and the frame that came in."""
        return self.label if self.label == "reorder" else f"{self.label} {self.window[-1]}"


def steps_of(num_frames: int, settings: ReplaySettings) -> tuple[Step, ...]:
    """One step a new frame; every so often the frame that left longest ago is recalled; last a reorder."""
    window = Window(settings.window)
    steps = []
    for index in range(num_frames):
        window = window.admit(Slot(str(index), str(index)))
        steps.append(Step("admit", _indices(window)))
        every = settings.look_back_every
        if every and (index + 1) % every == 0 and window.evicted:
            window = window.recall(window.evicted[0].name)
            steps.append(Step("look back", _indices(window)))
    if settings.reorder and len(window.slots) > 1:
        window = window.reorder(window.names[::-1])
        steps.append(Step("reorder", _indices(window)))
    return tuple(steps)


def _indices(window: Window) -> tuple[int, ...]:
    return tuple(int(name) for name in window.names)
