"""Writes docs/cli.md from the commands' own options and help texts: `nox -s cli_page`. A test compares."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "cli.md"
INTRODUCTION = """\
# Command line

`pip install 'kamera-kv[cli,hf,lab]'`. This page is written by `nox -s cli_page` from the commands'
own help. An error is one line on stderr and exit code 2.
"""


def page() -> str:
    """The whole page."""
    from typer.main import get_command

    from kamera.cli.app import app

    root: Any = get_command(app)
    parts = [INTRODUCTION, _section("kamera", root, "kamera [OPTIONS] COMMAND")]
    for name, command in sorted(_commands(root)):
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        usage = " ".join([f"kamera {name}", "[OPTIONS]", *(_metavar(a) for a in arguments)])
        parts.append(_section(f"kamera {name}", command, usage))
    return "\n".join(parts)


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Full name and command, those of the groups in it too."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _section(title: str, command: Any, usage: str) -> str:
    lines = [f"## {title}", "", " ".join((command.help or "").split()), "", f"    {usage}", ""]
    rows = [_row(p) for p in command.params if not getattr(p, "hidden", False)]
    if rows:
        lines += ["| | default | |", "| --- | --- | --- |", *rows, ""]
    return "\n".join(lines)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name, default = f"`{_metavar(parameter)}`", "required" if parameter.required else ""
    else:
        forms = [*parameter.opts, *parameter.secondary_opts]
        name = " / ".join(f"`{form}`" for form in forms)
        default = _default(parameter)
    return f"| {name} | {default} | {parameter.help or ''} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    if parameter.is_flag and parameter.secondary_opts:
        return f"`{parameter.opts[0] if value else parameter.secondary_opts[0]}`"
    return "" if value is None or value is False else f"`{value}`"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
