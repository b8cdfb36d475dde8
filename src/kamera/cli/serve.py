"""`kamera serve`."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from kamera.cli.doctor import escape
from kamera.cli.failing import clear_errors
from kamera.cli.model import model_name
from kamera.cli.patch import PatchWords, Rank
from kamera.errors import ConfigError

if TYPE_CHECKING:
    from kamera.engines.vllm.serve_plan import ServePlan


class Engine(StrEnum):
    """Engines that can serve."""

    VLLM = "vllm"


class Fill(StrEnum):
    """When solo requests are sent."""

    EAGER = "eager"
    IDLE = "idle"
    OFF = "off"


def serve(  # one parameter an option, as typer wants them
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A checkpoint's folder, a packaged model's name, or owner/name on the hub.",
        ),
    ],
    vllm_args: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- VLLM_OPTIONS", help="vLLM's own options, behind `--`."),
    ] = None,
    engine: Annotated[Engine, typer.Option(help="The engine that serves.")] = Engine.VLLM,
    store: Annotated[
        Path | None,
        typer.Option(help="Folder of the store; one that ends with the server if not given."),
    ] = None,
    rank: Rank = None,
    patch: PatchWords = None,
    fill: Annotated[
        Fill, typer.Option(help="When missing canonicals are made by requests of the server's own.")
    ] = Fill.IDLE,
    fill_per_minute: Annotated[
        int, typer.Option(min=1, help="Most of these requests in a minute.")
    ] = 600,
    tenant: Annotated[
        str | None, typer.Option(help="Whose data this is; a request's cache_salt divides further.")
    ] = None,
    keep_survivors: Annotated[
        bool,
        typer.Option(
            help="When a window slides: chunks keep what they absorbed of those that left (approximate), or "
            "are prefilled again."
        ),
    ] = True,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Another setting of the connector: disk_bytes=10000000000.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, and end there.")
    ] = False,
) -> None:
    """Start an engine's own server with Kamera in it; clients change nothing."""
    with clear_errors(extras="pip install 'kamera-kv[cli,vllm]'"):
        from kamera.engines.vllm.serve import serve as run
        from kamera.engines.vllm.serve_plan import ServeOptions
        from kamera.engines.vllm.settings import ConnectorSettings

        settings = ConnectorSettings.of(
            {
                "store": None if store is None else str(store),
                "rank": rank,
                "patch": patch,
                "fill": fill.value,
                "fill_per_minute": fill_per_minute,
                "tenant": tenant,
                "keep_survivors": keep_survivors,
                **_settings(more or []),
            }
        )
        options = ServeOptions(model_name(model), settings, host, port, tuple(vllm_args or ()))
        run(options, _show, dry_run=dry_run)


def _settings(given: list[str]) -> dict[str, object]:
    """NAME=VALUE, the value as JSON where it is JSON."""
    settings: dict[str, object] = {}
    for text in given:
        name, found, value = text.partition("=")
        if not found:
            raise ConfigError(f"Invalid --set {text!r}: expected NAME=VALUE")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _show(plan: "ServePlan") -> None:
    console = Console(stderr=True, highlight=False)
    table = Table(box=box.SIMPLE, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for what, value in plan.notes:
        table.add_row(escape(what), escape(value))
    console.print(table)
    typer.echo(plan.command)
