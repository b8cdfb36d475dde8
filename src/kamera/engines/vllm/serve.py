"""`kamera serve --engine vllm`: vLLM's own server, in this process, with the plug-in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kamera.engines.vllm.fill import ENDPOINT_PLUGIN
from kamera.engines.vllm.serve_plan import ServeOptions, ServePlan, option_value, serve_plan
from kamera.engines.vllm.served_config import checked
from kamera.engines.vllm.version import check_version
from kamera.errors import ConfigError

_GROUPS = (
    "vllm.general_plugins",
    "vllm.platform_plugins",
    "vllm.io_processor_plugins",
    "vllm.stat_logger_plugins",
)
"""Groups that `VLLM_PLUGINS` filters and that load whole while it isn't set."""


def serve(options: ServeOptions, say: Callable[[ServePlan], None], *, dry_run: bool) -> None:
    """Check the model, say what will run, and run it until the server ends.

    Args:
        options: what the user asked for; without a store, a folder of this process's own is used, and
            removed at the end.
        say: shows the plan, before anything starts.
        dry_run: end there.

    Raises:
        ConfigError, UnsupportedModelError, EngineVersionError: before anything starts.
    """
    verdict = checked(options.model, revision_of(options.extra))
    if options.settings.fill != "off" and os.environ.get("VLLM_USE_RUST_FRONTEND", "0") != "0":
        raise ConfigError(
            "VLLM_USE_RUST_FRONTEND is set, but the fill companion lives in vLLM's Python front end: unset "
            "it, or give --fill off"
        )
    version = check_version()
    with _store(options, dry_run) as (options, kept):
        plan = serve_plan(options, verdict, on_cpu=on_cpu(), plugins=loaded_plugins(os.environ))
        notes = [("engine", f"vLLM {version}"), *plan.notes]
        if not kept:
            notes = [
                (w, f"{v}, removed when the server ends") if w == "store" else (w, v)
                for w, v in notes
            ]
        plan = replace(plan, notes=tuple(notes))
        say(plan)
        if not dry_run:
            os.environ.update(plan.environment)
            _run(list(plan.arguments))


def loaded_plugins(environment: Mapping[str, str]) -> list[str]:
    """The plug-ins that `VLLM_PLUGINS` names, or all that load while it isn't set.

    Endpoint plug-ins load only when named. So naming ours must name the others of the other groups too.
    """
    named = environment.get("VLLM_PLUGINS")
    if named is not None:
        return [name for name in named.split(",") if name and name != ENDPOINT_PLUGIN]
    return sorted({point.name for group in _GROUPS for point in entry_points(group=group)})


@contextmanager
def _store(options: ServeOptions, dry_run: bool) -> Iterator[tuple[ServeOptions, bool]]:
    """The options with a store, and whether it outlives the server."""
    if options.settings.store is not None:
        yield (
            _with_store(options, store_folder(Path(options.settings.store), make=not dry_run)),
            True,
        )
    elif dry_run:
        yield _with_store(options, Path("<a temporary folder>")), False
    else:
        with TemporaryDirectory(prefix="kamera-store-", ignore_cleanup_errors=True) as folder:
            yield _with_store(options, Path(folder)), False


def _with_store(options: ServeOptions, folder: Path) -> ServeOptions:
    return replace(options, settings=replace(options.settings, store=str(folder)))


def store_folder(folder: Path, *, make: bool) -> Path:
    """The store's folder by its whole path, made if it isn't there.

    Raises:
        ConfigError: it is a file, or can't be made.
    """
    folder = folder.expanduser().absolute()
    try:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"Invalid store: expected a folder, got a file: {folder}")
        if make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"Can't make the store's folder {folder}: {error.strerror}") from error
    return folder


def on_cpu() -> bool:
    """Whether vLLM's platform here is the CPU."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def _run(arguments: list[str]) -> None:
    """As `vllm serve` does. Its own entry point reads sys.argv and asks for the package's metadata by the
    name `vllm`, which the CPU package doesn't have."""
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
    from vllm.logger import configure_logging_from_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    cli_env_setup()
    command: Any = ServeSubcommand()
    parser = FlexibleArgumentParser(prog="vllm")
    command.subparser_init(parser.add_subparsers(required=True, dest="subparser"))
    args = parser.parse_args(["serve", *arguments])
    configure_logging_from_args(args)
    command.validate(args)
    command.cmd(args)


def revision_of(extra: tuple[str, ...]) -> str | None:
    """The `--revision` among vLLM's options."""
    return option_value(extra, "--revision")
