"""`kamera replay`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from kamera.cli.failing import clear_errors
from kamera.cli.model import HELP as MODEL_HELP
from kamera.cli.model import model_folder
from kamera.cli.progress import bar
from kamera.lab.replay.settings import OUT, QUESTION, ReplaySettings

DEFAULTS = ReplaySettings(Path())


def replay(  # one parameter an option, as typer wants them
    source: Annotated[
        Path,
        typer.Argument(metavar="DIR_OR_VIDEO", help="A folder of PNG or JPEG frames, or a video."),
    ],
    model: Annotated[Path | None, typer.Option(help=MODEL_HELP)] = None,
    window: Annotated[int, typer.Option(help="Images that the window holds.")] = DEFAULTS.window,
    question: Annotated[str, typer.Option(help="Asked of every window.")] = QUESTION,
    look_back_every: Annotated[
        int, typer.Option(help="Recall a frame that left after every so many new ones; 0: never.")
    ] = DEFAULTS.look_back_every,
    reorder: Annotated[bool, typer.Option(help="Reverse the last window.")] = DEFAULTS.reorder,
    rank: Annotated[
        int | None,
        typer.Option(
            help="One rank for all layers of the patches; the session's default if not given."
        ),
    ] = DEFAULTS.rank,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = OUT,
    store: Annotated[
        Path | None, typer.Option(help="Folder of Kamera's store; memory alone if not given.")
    ] = None,
    max_frames: Annotated[
        int | None,
        typer.Option(help="The first N images of a folder, or N evenly spaced frames of a video."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="Threads of torch; its own choice if not given. Busy cores want 1."
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Count images that can't be read, and go on.")
    ] = False,
) -> None:
    """An agent's screenshots through a sliding window: re-prefill, prefix cache, blind and Kamera."""
    with clear_errors():
        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        settings = ReplaySettings(
            source=source,
            model=model_folder(model),
            out=out,
            store=store,
            window=window,
            question=question,
            look_back_every=look_back_every,
            reorder=reorder,
            rank=rank,
            max_frames=max_frames,
            skip_bad=skip_bad,
        )
        with bar() as progress:
            from kamera.lab.replay.run import replay as run

            report = run(settings, progress=progress)
        show(report)


HEADINGS = (
    "prefilled\ntokens",
    "of prefix\ncache",
    "formed\ntokens",
    "vision\nruns",
    "TTFT ms\n(median)",
    "KL nats\n(mean)",
    "same\nanswer",
)


def show(report: dict[str, Any]) -> None:
    """The totals of every arm, the notes, and where the files are."""
    console = Console()
    title = f"windows: {len(report['steps'])}, images in each: up to {report['settings']['window']}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("arm", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for arm, total in report["totals"].items():
        ratio = total["prefilled_vs_prefix_cache"]
        table.add_row(
            arm,
            f"{total['num_prefilled']:,}",
            "-" if ratio is None else f"{ratio:.2f} x",
            f"{total['num_formed']:,}",
            str(total["num_vision_runs"]),
            f"{1000 * total['median_ttft_s']:.1f}",
            f"{total['mean_kl']:.1e}",
            f"{total['num_same_answers']}/{total['num_steps']}",
        )
    console.print(table)
    for line in (*report["notes"], *(f"{name}: {path}" for name, path in report["files"].items())):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
