"""Replay: an agent's frames or screenshots through a sliding window, every arm side by side.

settings   what can be set
frames     a folder of images, or a video -> frames in order
steps      the windows that the agent asks for, one after another; pure
serving    one window by every arm
report     what is recorded, its totals, report.json
plot       the picture of it
run        replay(): all of the above
"""

from typing import TYPE_CHECKING, Any

from kamera.lab.replay.settings import ReplaySettings

if TYPE_CHECKING:
    from kamera.lab.replay.run import replay

__all__ = ["ReplaySettings", "replay"]


def __getattr__(name: str) -> Any:
    """`replay`, when it is asked for: settings alone load no torch, which a command's help shouldn't."""
    if name == "replay":
        from kamera.lab.replay.run import replay

        return replay
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
