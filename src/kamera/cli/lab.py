"""`kamera lab`: what the paper measures, on any supported model."""

from pathlib import Path
from typing import Annotated

import typer

import kamera
from kamera.cli.failing import clear_errors
from kamera.cli.lab_tables import show_binding
from kamera.cli.model import model_folder
from kamera.cli.progress import bar

lab = typer.Typer(
    name="lab",
    help="What the paper measures, on the packaged models or on yours.",
    no_args_is_help=True,
)


@lab.callback()
def _lab() -> None:
    """What the paper measures, on the packaged models or on yours."""


@lab.command()
def binding(
    model: Annotated[
        list[Path] | None,
        typer.Option(
            help="Checkpoint folder, or the name of a packaged model; may be given several times. "
            "All packaged models if not given."
        ),
    ] = None,
    num_items: Annotated[
        int, typer.Option("--items", min=1, help="Test items that are asked of each model.")
    ] = 64,
    seed: Annotated[int, typer.Option(help="Which items are drawn.")] = 0,
    out: Annotated[
        Path, typer.Option(help="The report, .json being added; other runs' sections in it stay.")
    ] = Path("build/lab"),
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 1,
) -> None:
    """The binding task under every arm, with intervals; the patch against tokens of the same bytes."""
    with clear_errors():
        import torch

        torch.set_num_threads(threads)
        from kamera.lab.runs import read_report, run_binding, write_section

        report = out if out.suffix == ".json" else out.with_name(f"{out.name}.json")
        read_report(report)  # one that can't be added to is refused before the work
        given = [str(name) for name in model or kamera.packaged_models()]
        folders = [model_folder(Path(name)) or Path(name) for name in given]
        names = "".join(f" --model {folder.name}" for folder in folders) if model else ""
        command = f"kamera lab binding{names} --items {num_items} --seed {seed}"
        with bar() as progress:
            section = run_binding(folders, num_items, command=command, seed=seed, progress=progress)
        write_section(report, "binding", section)
        show_binding(section)
        typer.echo(f"report: {report}")
