"""`kamera lab`: what the paper measures, on any supported model."""

from pathlib import Path
from typing import Annotated

import typer

import kamera
from kamera.cli.failing import clear_errors
from kamera.cli.lab_tables import show_binding, show_probes
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


Models = Annotated[
    list[Path] | None,
    typer.Option(
        "--model",
        help="Checkpoint folder, or the name of a packaged model; may be given several times. "
        "All packaged models if not given.",
    ),
]
Items = Annotated[
    int, typer.Option("--items", min=1, help="Test items that are asked of each model.")
]
Seed = Annotated[int, typer.Option(help="Which items are drawn.")]
Out = Annotated[
    Path, typer.Option(help="The report, .json being added; other runs' sections in it stay.")
]
Threads = Annotated[int, typer.Option(min=1, help="Threads of torch.")]
OUT = Path("build/lab")


@lab.command()
def binding(
    model: Models = None,
    num_items: Items = 64,
    seed: Seed = 0,
    out: Out = OUT,
    threads: Threads = 1,
) -> None:
    """The binding task under every arm, with intervals; the patch against tokens of the same bytes."""
    _run("binding", model, num_items, seed, out, threads)


@lab.command()
def probes(
    model: Models = None,
    num_items: Items = 16,
    seed: Seed = 0,
    out: Out = OUT,
    threads: Threads = 1,
) -> None:
    """What reuse loses on the binding task: its rank, energy, depth, spread over tokens, and who finds it."""
    _run("probes", model, num_items, seed, out, threads)


def _run(
    name: str, model: list[Path] | None, num_items: int, seed: int, out: Path, threads: int
) -> None:
    with clear_errors():
        import torch

        torch.set_num_threads(threads)
        from kamera.lab.runs import read_report, run_binding, run_probes, write_section

        run, show = {
            "binding": (run_binding, show_binding),
            "probes": (run_probes, show_probes),
        }[name]
        report = out if out.suffix == ".json" else out.with_name(f"{out.name}.json")
        read_report(report)  # one that can't be added to is refused before the work
        given = [str(one) for one in model or kamera.packaged_models()]
        folders = [model_folder(Path(one)) or Path(one) for one in given]
        names = "".join(f" --model {folder.name}" for folder in folders) if model else ""
        command = f"kamera lab {name}{names} --items {num_items} --seed {seed}"
        with bar() as progress:
            section = run(folders, num_items, command=command, seed=seed, progress=progress)
        write_section(report, name, section)
        show(section)
        typer.echo(f"report: {report}")
