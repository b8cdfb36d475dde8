"""A progress bar, on a terminal alone."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def bar() -> Iterator[Callable[[str, int, int], None]]:
    """What to call with (what is running, how much is done, how much there is)."""
    # Transformers' own bars would be drawn across this one; it reads this when it is imported.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:<20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        task = progress.add_task("load", total=None)

        said: set[str] = set()

        def tell(label: str, done: int, total: int) -> None:
            if quiet and label not in said:  # a log gets one line for each thing that is begun
                said.add(label)
                console.print(f"{label} ({total})", highlight=False)
            progress.update(task, completed=done, total=total, description=label)

        yield tell
