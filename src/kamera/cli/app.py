"""The commands."""

from typing import Annotated

import typer

import kamera
from kamera.cli.compile import compile_
from kamera.cli.demo import demo
from kamera.cli.doctor import doctor
from kamera.cli.lab import lab
from kamera.cli.replay import replay
from kamera.cli.serve import serve
from kamera.cli.store import store

app = typer.Typer(
    name="kamera",
    help="A position-independent KV cache for multimodal agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(replay)
app.command()(demo)
app.command()(doctor)
app.command()(serve)
app.command("compile")(compile_)
app.add_typer(lab)
app.add_typer(store)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"kamera {kamera.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """A position-independent KV cache for multimodal agents."""
