"""Tasks on real pixels, train and test apart (docs/concepts.md shows one of each)."""

from kamera.lab.tasks import binding, needle, readout, shell_game
from kamera.lab.tasks.task import ANSWERS, Item, Task

TASKS: dict[str, Task] = {
    task.name: task for task in (readout.TASK, binding.TASK, shell_game.TASK, needle.TASK)
}

__all__ = ["ANSWERS", "TASKS", "Item", "Task"]
