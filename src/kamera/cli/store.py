"""`kamera store`: what a folder holds, whether it is whole, and making it smaller."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kamera.cli.failing import clear_errors
from kamera.errors import ConfigError

if TYPE_CHECKING:
    from kamera.store import DiskStore, EntryKey

store = typer.Typer(name="store", help="A store's folder: list, verify, make smaller.")

NO_CAP = 1 << 62

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the store.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@store.command("ls")
def ls(
    folder: Folder,
    limit: Annotated[int, typer.Option(help="Entries to show, the last used first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """What a store holds: entries and bytes by kind, and the entries that were used last."""
    with clear_errors(), _opened(folder) as opened:
        keys = opened.keys()
        sizes = {key: _num_bytes(opened, key) for key in keys}
        put_aside = _put_aside(folder)
    kinds: dict[str, list[int]] = defaultdict(list)
    for key in keys:
        kinds[key.kind].append(sizes[key])
    last = list(reversed(keys))[: max(limit, 0)]
    if as_json:
        report = {
            "entries": len(keys),
            "bytes": sum(sizes.values()),
            "quarantined": len(put_aside),
            "kinds": {
                kind: {"entries": len(of), "bytes": sum(of)} for kind, of in sorted(kinds.items())
            },
            "last_used": [
                {"kind": key.kind, "digest": key.digest, "bytes": sizes[key]} for key in last
            ],
        }
        typer.echo(json.dumps(report))
        return
    console = Console(highlight=False)
    table = Table("kind", "entries", "bytes", box=box.SIMPLE)
    for kind, of in sorted(kinds.items()):
        table.add_row(kind, f"{len(of):,}", f"{sum(of):,}")
    table.add_row("all", f"{len(keys):,}", f"{sum(sizes.values()):,}", style="bold")
    console.print(table)
    for key in last:
        console.print(f"{sizes[key]:>15,}  {key}", soft_wrap=True)
    if put_aside:
        console.print(f"{len(put_aside)} files were put aside: {escape(str(folder))}/quarantine")


@store.command("verify")
def verify(folder: Folder, as_json: AsJson = False) -> None:
    """Read every entry and check every digest. Changes nothing; exit code 1 if one isn't whole."""
    with clear_errors(), _opened(folder) as opened:
        report = opened.verify()
    if as_json:
        problems = [
            {"name": p.name, "reason": p.reason.value, "detail": p.detail} for p in report.problems
        ]
        typer.echo(json.dumps({"checked": report.num_checked, "problems": problems}))
    else:
        console = Console(highlight=False)
        for problem in report.problems:
            said = f"{problem.name}: {problem.reason.value}: {problem.detail}"
            console.print(escape(said), soft_wrap=True)
        bad = f"{len(report.problems)} of them not whole" if report.problems else "all whole"
        console.print(f"{report.num_checked:,} entries checked, {bad}")
    raise typer.Exit(0 if report.ok else 1)


@store.command("gc")
def gc(
    folder: Folder,
    max_bytes: Annotated[
        int | None,
        typer.Option(min=1, help="The least recently used leave until no more than this is held."),
    ] = None,
    empty_quarantine: Annotated[
        bool, typer.Option("--empty-quarantine", help="Remove the files that were put aside.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a store smaller. Entries that a running process has pinned stay."""
    with clear_errors():
        with _opened(folder) as opened:
            before = opened.stats()
        with _opened(folder, max_bytes or NO_CAP) as opened:
            after = opened.stats()
        removed = _remove(_put_aside(folder)) if empty_quarantine else 0
    report = {
        "evicted": before.num_entries - after.num_entries,
        "bytes_freed": before.num_bytes - after.num_bytes,
        "entries": after.num_entries,
        "bytes": after.num_bytes,
        "quarantined_removed": removed,
    }
    if as_json:
        typer.echo(json.dumps(report))
    else:
        typer.echo(
            f"{report['evicted']:,} entries removed, {report['bytes_freed']:,} bytes freed; "
            f"{after.num_entries:,} entries of {after.num_bytes:,} bytes stay"
        )
        if empty_quarantine:
            typer.echo(f"{removed:,} files that were put aside are removed")


def _opened(folder: Path, max_bytes: int = NO_CAP) -> DiskStore:
    """The store in `folder`, if there is one. Nothing leaves it unless it holds more than `max_bytes`."""
    from kamera.store import DiskStore  # loads torch

    if not (folder / "entries").is_dir():
        raise ConfigError(
            f"{folder} isn't a Kamera store: expected a folder with entries/ in it. Name the folder that a "
            "session or a server was given as its store."
        )
    return DiskStore(folder, max_bytes)


def _num_bytes(opened: DiskStore, key: EntryKey) -> int:
    found = opened.peek(key)
    return 0 if found is None else found.num_bytes


def _put_aside(folder: Path) -> Sequence[Path]:
    aside = folder / "quarantine"
    return sorted(aside.iterdir()) if aside.is_dir() else []


def _remove(paths: Sequence[Path]) -> int:
    """Files alone: a folder that lay in an entry's place is left to its owner."""
    removed = 0
    for path in paths:
        if not path.is_dir() or path.is_symlink():
            path.unlink(missing_ok=True)
            removed += 1
    return removed
