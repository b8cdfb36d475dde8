"""Progress bars, on a terminal alone."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Tell = Callable[[str, int, int], None]
"""Called with (what is running, how much is done, how much there is)."""


@contextmanager
def bar() -> Iterator[Tell]:
    """One bar, of what runs now."""
    with _bars(lambda label: "") as tell:
        yield tell


@contextmanager
def bars() -> Iterator[Tell]:
    """A bar for each model, of what runs on it now: a label's last part, behind a comma, is the model."""
    with _bars(lambda label: label.rpartition(", ")[2]) as tell:
        yield tell


@contextmanager
def _bars(row_of: Callable[[str], str]) -> Iterator[Tell]:
    # Transformers' own bars would be drawn across these; it reads this when it is imported.
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
        rows = {"": progress.add_task("load", total=None)}
        said: set[str] = set()

        def tell(label: str, done: int, total: int) -> None:
            if quiet and label not in said:  # a log gets one line for each thing that is begun
                said.add(label)
                console.print(f"{label} ({total})", highlight=False)
            row = row_of(label)
            if row not in rows:
                if "" in rows:
                    progress.remove_task(rows.pop(""))
                rows[row] = progress.add_task(label)
            progress.update(rows[row], completed=done, total=total, description=label)

        yield tell
