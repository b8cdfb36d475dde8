"""How a command fails: one clear line on stderr, exit code 2, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from kamera.errors import KameraError

EXTRAS = "pip install 'kamera-kv[cli,hf,lab]'"


@contextmanager
def clear_errors(extras: str = EXTRAS) -> Iterator[None]:
    """Turn what Kamera raises on purpose, and a missing extra, into that line. A bug keeps its traceback.

    Args:
        extras: how to install what the command needs.
    """
    try:
        yield
    except KameraError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        name = error.name or ""
        if name.partition(".")[0] == "kamera":
            raise
        _fail(f"{name} isn't installed: this command needs it. Install it with: {extras}")


def _fail(message: str) -> None:
    line = " ".join(message.split())
    Console(stderr=True).print(Text(f"Error: {line}", style="bold red"), soft_wrap=True)
    raise typer.Exit(2)
