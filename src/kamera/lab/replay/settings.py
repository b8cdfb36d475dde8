"""`ReplaySettings`: what can be set of a replay."""

from dataclasses import dataclass
from pathlib import Path

from kamera.errors import ConfigError

QUESTION = "What does the last image show?"
OUT = Path("build/replay")


@dataclass(frozen=True)
class ReplaySettings:
    """Validated when made.

    Attributes:
        source: a folder of PNG or JPEG images, or a video.
        model: a checkpoint's folder; None for the packaged nano-gqa.
        out: where `report.json` and `replay.png` are written.
        store: the folder of Kamera's store; None for memory alone.
        window: images that the window holds; when it is full the oldest leaves.
        question: asked of every window.
        look_back_every: after every so many new frames, one that left is recalled; 0 for never.
        reorder: whether the last window is asked once more in reverse order.
        rank: patch rank m, the same in all layers; None for the session's default.
        max_frames: the first so many images of a folder; so many evenly spaced frames of a video.
        skip_bad: count an image that can't be read and go on, instead of failing.
    """

    source: Path
    model: Path | None = None
    out: Path = OUT
    store: Path | None = None
    window: int = 3
    question: str = QUESTION
    look_back_every: int = 3
    reorder: bool = True
    rank: int | None = None
    max_frames: int | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        self._require("window", self.window, 1)
        self._require("look_back_every", self.look_back_every, 0)
        if self.rank is not None:
            self._require("rank", self.rank, 1)
        if self.max_frames is not None:
            self._require("max_frames", self.max_frames, 1)
        if not self.question.strip():
            raise ConfigError("Invalid question: expected some text, got none")

    @staticmethod
    def _require(name: str, value: int, lowest: int) -> None:
        if value < lowest:
            raise ConfigError(f"Invalid {name}: expected at least {lowest}, got {value}")
