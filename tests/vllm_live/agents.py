"""What agents ask: windows of screenshots that slide, and now and then look back."""

from __future__ import annotations

import os
from pathlib import Path

from kamera.lab.replay.frames import natural_key
from kamera.lab.replay.settings import ReplaySettings
from kamera.lab.replay.steps import steps_of

QUESTION = "What does the last image show?"
Window = tuple[Path, ...]


def trajectories(generated: Path, num_frames: int) -> list[list[Path]]:
    """One agent's frames each: real screenshots of KAMERA_DATA, or drawn ones where it isn't set."""
    data = os.environ.get("KAMERA_DATA")
    folders = sorted(Path(data, "webvoyager").glob("task*")) if data else []
    if not folders:
        return [_drawn(generated / f"agent{agent}", agent, num_frames) for agent in range(3)]
    found = [sorted(folder.glob("*.png"), key=lambda p: natural_key(p.name)) for folder in folders]
    return [frames[:num_frames] for frames in found]


def labelled_windows(frames: list[Path], size: int) -> list[tuple[str, Window]]:
    """The windows that the agent asks for, in order: `kamera replay`'s own steps.

    `grow`: a frame comes into a window that has room. `slide`: the oldest leaves. `look back`: one that left
    comes in again.
    """
    settings = ReplaySettings(Path("."), window=size, look_back_every=3, reorder=False)
    found, longest = [], 0
    for step in steps_of(len(frames), settings):
        label = "grow" if len(step.window) > longest else "slide"
        longest = max(longest, len(step.window))
        label = label if step.label == "admit" else step.label
        found.append((label, tuple(frames[i] for i in step.window)))
    return found


def windows_of(frames: list[Path], size: int = 3) -> list[Window]:
    """The same without what the agent did."""
    return [window for _, window in labelled_windows(frames, size)]


def _drawn(folder: Path, seed: int, num_frames: int) -> list[Path]:
    """Pages with boxes in places that differ from frame to frame."""
    import numpy as np
    from PIL import Image, ImageDraw

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(num_frames):
        rng = np.random.default_rng([seed, number])
        page = Image.new("RGB", (1024, 768), "white")
        draw = ImageDraw.Draw(page)
        for _ in range(24):
            x, y = (int(v) for v in rng.integers(0, (900, 700)))
            color = tuple(int(v) for v in rng.integers(0, 256, 3))
            draw.rectangle((x, y, x + int(rng.integers(20, 300)), y + 40), fill=color)
        paths.append(folder / f"frame{number}.png")
        page.save(paths[-1])
    return paths
