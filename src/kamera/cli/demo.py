"""`kamera demo`."""

from pathlib import Path
from typing import Annotated

import typer

from kamera.cli.demo_tables import show_demo
from kamera.cli.failing import clear_errors
from kamera.cli.model import HELP as MODEL_HELP
from kamera.cli.model import model_folder
from kamera.cli.progress import bar
from kamera.cli.replay import show as show_replay


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("build/demo"),
    num_items: Annotated[
        int, typer.Option("--items", min=1, help="Items of each task that are asked.")
    ] = 256,
    threads: Annotated[
        int,
        typer.Option(
            min=1, help="Threads of torch; the packaged model is too small to gain from more."
        ),
    ] = 1,
    model: Annotated[Path | None, typer.Option(help=MODEL_HELP)] = None,
) -> None:
    """Blind reuse loses what a frame absorbed; the patch gives it back. See it on the packaged model."""
    with clear_errors():
        import torch

        torch.set_num_threads(threads)
        from kamera.lab.demo import run

        with bar() as progress:
            report = run(out=out, num_items=num_items, model=model_folder(model), progress=progress)
        show_demo(report)
        show_replay(report["replay"])
        typer.echo(f"report: {out / 'report.json'}")
        typer.echo(f"picture: {out / 'tasks.png'}")
