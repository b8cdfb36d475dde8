"""`kamera compile`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from kamera.cli.failing import clear_errors
from kamera.cli.model import model_name
from kamera.cli.patch import PatchWords, Rank
from kamera.cli.progress import bar
from kamera.cli.serve import Engine

if TYPE_CHECKING:
    from kamera.engines.vllm.compile_plan import CompileReport

_MAX_LINES = 20
"""Line numbers that are listed."""


def compile_(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A checkpoint's folder, a packaged model's name, or owner/name on the hub.",
        ),
    ],
    requests: Annotated[
        Path,
        typer.Argument(
            metavar="REQUESTS.jsonl",
            help="One chat request a line; images as `data:` urls or paths beside the file.",
        ),
    ],
    store: Annotated[Path, typer.Option(help="Folder of the store to fill.")],
    vllm_args: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- VLLM_OPTIONS", help="vLLM's engine options, the same as the server's."
        ),
    ] = None,
    engine: Annotated[Engine, typer.Option(help="The engine that will serve.")] = Engine.VLLM,
    rank: Rank = None,
    patch: PatchWords = None,
    tenant: Annotated[
        str | None, typer.Option(help="Whose data this is, as the server will be told.")
    ] = None,
) -> None:
    """Fill a store ahead: a server with the plug-in then serves these requests from it."""
    with clear_errors(extras="pip install 'kamera-kv[cli,vllm]'"):
        from kamera.engines.vllm.compile import compile_store
        from kamera.engines.vllm.compile_plan import CompileOptions
        from kamera.engines.vllm.compile_requests import read_lines
        from kamera.engines.vllm.serve import store_folder
        from kamera.engines.vllm.settings import ConnectorSettings

        lines = read_lines(requests)
        settings = ConnectorSettings(
            store=str(store_folder(store, make=True)),
            rank=rank,
            patch=patch,
            fill="eager",
            tenant=tenant,
            keep_survivors=False,  # there is time: each window's patches are formed on its own prefill
        )
        with bar() as progress:
            report = compile_store(
                CompileOptions(model_name(model), settings, tuple(vllm_args or ())), lines, progress
            )
        _show(report, store)


def _show(report: "CompileReport", store: Path) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"requests: {report.num_requests:,}, {report.num_prompt_tokens:,} tokens")
    console.print(f"canonicals: {report.num_images:,} images, {report.num_texts:,} texts")
    console.print(
        f"served when sent again: {report.num_served_tokens:,} of {report.num_reusable_tokens:,} tokens to "
        "the end of each request's last image"
    )
    if report.unserved:
        listed = ", ".join(str(number) for number in report.unserved[:_MAX_LINES])
        more = len(report.unserved) - _MAX_LINES
        console.print(
            f"not served to the last image: line {listed}{f' and {more:,} more' if more > 0 else ''}; "
            "VLLM_LOGGING_LEVEL=INFO says why"
        )
    console.print(f"store: {store}")
