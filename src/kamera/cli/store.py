"""`kamera store`: what a folder holds, whether it is whole, and making it smaller."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kamera.cli.failing import clear_errors
from kamera.errors import ConfigError

if TYPE_CHECKING:
    from kamera.store import DiskStore, Problem
    from kamera.store.directory import Directory

store = typer.Typer(name="store", help="A store's folder: list, verify, make smaller.")

NO_CAP = 1 << 62

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the store.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@store.command("ls")
def ls(
    folder: Folder,
    limit: Annotated[int, typer.Option(min=0, help="Entries to show, the last used first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """What a store holds: entries and bytes by kind, and the entries that were used last."""
    with clear_errors(), _opened(folder) as opened:
        listed = opened.keys()
        sizes = {key: peek.num_bytes for key in listed if (peek := opened.peek(key))}
        last = list(reversed(sizes))[:limit]
        newer = {key for key in last if opened.is_newer(key)}
        num_put_aside = len(opened.put_aside())
    kinds: dict[str, list[int]] = defaultdict(list)
    for key, num_bytes in sizes.items():
        kinds[key.kind].append(num_bytes)
    report = {
        "entries": len(sizes),
        "bytes": sum(sizes.values()),
        "missing": len(listed) - len(sizes),
        "quarantined": num_put_aside,
        "kinds": {
            kind: {"entries": len(of), "bytes": sum(of)} for kind, of in sorted(kinds.items())
        },
        "last_used": [
            {"kind": key.kind, "digest": key.digest, "bytes": sizes[key], "newer": key in newer}
            for key in last
        ],
    }
    if as_json:
        typer.echo(json.dumps(report))
    else:
        _show_listing(report, folder)


@store.command("verify")
def verify(folder: Folder, as_json: AsJson = False) -> None:
    """Read every entry and check every digest. Changes nothing; exit code 1 if one isn't whole."""
    with clear_errors():
        directory = _directory(folder)
        from kamera.store.reading import verify_files  # loads torch

        report = verify_files(directory, NO_CAP)
    if as_json:
        found = {
            "checked": report.num_checked,
            "problems": [_told(problem) for problem in report.problems],
            "newer": [_told(problem) for problem in report.newer],
        }
        typer.echo(json.dumps(found))
    else:
        console = Console(highlight=False)
        for problem in (*report.problems, *report.newer):
            said = f"{problem.name}: {problem.reason.value}: {problem.detail}"
            console.print(escape(said), soft_wrap=True)
        bad = f"{len(report.problems)} of them not whole" if report.problems else "all whole"
        console.print(f"{_entries(report.num_checked)} checked, {bad}")
        if report.problems:
            said = (
                "None of these is served: damage is put aside when it is asked for, and formed anew"
            )
            console.print(said, soft_wrap=True)
        if report.newer:
            said = f"{_entries(len(report.newer))} more: of a newer format version, not checked"
            console.print(said, soft_wrap=True)
    raise typer.Exit(0 if report.ok else 1)


@store.command("gc")
def gc(
    folder: Folder,
    max_bytes: Annotated[
        int | None,
        typer.Option(min=1, help="The least recently used leave until no more than this is held."),
    ] = None,
    newer: Annotated[
        bool,
        typer.Option("--newer", help="Let also entries of a newer format version leave."),
    ] = False,
    empty_quarantine: Annotated[
        bool, typer.Option("--empty-quarantine", help="Remove what was put aside.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a store smaller. Entries that a running process has pinned stay.

    Entries whose files somebody removed are forgotten. Those of a newer Kamera's format version stay, unless
    --newer lets them leave too.
    """
    with clear_errors(), _opened(folder) as opened:
        forgotten = opened.forget_missing()
        before = opened.stats()
        spared = opened.shrink(max_bytes or NO_CAP, spare_newer=not newer)
        after = opened.stats()
        removed = opened.empty_quarantine() if empty_quarantine else 0
        num_put_aside = len(opened.put_aside())
    report = {
        "evicted": before.num_entries - after.num_entries,
        "bytes_freed": before.num_bytes - after.num_bytes,
        "forgotten": forgotten,
        "entries": after.num_entries,
        "bytes": after.num_bytes,
        "pinned": after.num_pinned,
        "newer_spared": spared,
        "quarantined_removed": removed,
        "quarantined": num_put_aside,
    }
    if as_json:
        typer.echo(json.dumps(report))
    else:
        _say_freed(report, max_bytes)
        if empty_quarantine:
            typer.echo(f"removed of what was put aside: {removed:,}")
            if num_put_aside:
                typer.echo(f"couldn't be removed: {num_put_aside:,}, in {folder}/quarantine")


def _show_listing(report: dict[str, Any], folder: Path) -> None:
    console = Console(highlight=False)
    table = Table("kind", "entries", "bytes", box=box.SIMPLE)
    for kind, of in report["kinds"].items():
        table.add_row(kind, f"{of['entries']:,}", f"{of['bytes']:,}")
    table.add_row("all", f"{report['entries']:,}", f"{report['bytes']:,}", style="bold")
    console.print(table)
    for one in report["last_used"]:
        mark = "  of a newer format version" if one["newer"] else ""
        console.print(f"{one['bytes']:>15,}  {one['kind']}-{one['digest']}{mark}", soft_wrap=True)
    if report["missing"]:
        said = f"{_entries(report['missing'])} more: listed, the file gone; kamera store gc forgets such"
        console.print(said, soft_wrap=True)
    if report["quarantined"]:
        said = f"put aside: {report['quarantined']}, in {escape(str(folder))}/quarantine"
        console.print(said, soft_wrap=True)


def _say_freed(report: dict[str, int], max_bytes: int | None) -> None:
    typer.echo(
        f"{_entries(report['evicted'])} removed, {report['bytes_freed']:,} bytes freed; "
        f"{_entries(report['entries'])} of {report['bytes']:,} bytes left"
    )
    if report["forgotten"]:
        typer.echo(f"{_entries(report['forgotten'])} forgotten, the file being gone")
    if max_bytes is not None and report["bytes"] > max_bytes:
        typer.echo(
            f"{report['bytes'] - max_bytes:,} bytes more than asked for stay: "
            f"{_entries(report['pinned'])} pinned, {report['newer_spared']:,} of a newer format version "
            "(--newer lets them leave)"
        )


def _directory(folder: Path) -> Directory:
    """The folder of a store, if there is one."""
    from kamera.store.directory import Directory, is_store  # loads torch

    try:
        if is_store(folder):
            return Directory(folder)
        is_there = "got one without them" if folder.is_dir() else "got a file"
        said = is_there if folder.exists() else "got no such folder"
    except OSError as error:
        raise ConfigError(
            f"{folder} can't be looked at: expected the folder of a Kamera store that this user owns, "
            f"got {error}. Run it as the folder's owner."
        ) from error
    raise ConfigError(
        f"{folder} isn't a Kamera store: expected a folder with entries/ and a store's index or "
        f"entries in it, {said}. Name the folder that a session or a server was given as its store."
    )


@contextmanager
def _opened(folder: Path) -> Iterator[DiskStore]:
    """The store in `folder`, if there is one. Nothing leaves it."""
    from kamera.store import DiskStore  # loads torch

    _directory(folder)
    with DiskStore(folder, NO_CAP) as opened:
        try:
            yield opened
        except sqlite3.Error as error:
            raise ConfigError(
                f"The index of {folder} can't be used: expected a folder that this user may write to, "
                f"got {error}. Run it as the folder's owner."
            ) from error


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _told(problem: Problem) -> dict[str, str]:
    return {"name": problem.name, "reason": problem.reason.value, "detail": problem.detail}
