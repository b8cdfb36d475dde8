"""The command line: it parses, calls `kamera.lab`, and prints. No logic of its own (extra `cli`).

app        the commands, and --version
failing    a KameraError as one line on stderr and exit code 2
progress   a bar on a terminal
replay     `kamera replay`
demo       `kamera demo`
doctor     `kamera doctor`
serve      `kamera serve`
compile    `kamera compile`
lab        `kamera lab`
store      `kamera store`
"""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """The entry point `kamera`; `args` are the process's own when None. Ends in `SystemExit`."""
    try:
        from kamera.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.stderr.write(
            f"The command line needs {error.name}. Install it with: pip install 'kamera-kv[cli]'\n"
        )
        raise SystemExit(2) from None
    app(args=None if args is None else list(args), prog_name="kamera")
