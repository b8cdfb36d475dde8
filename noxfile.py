"""The task list: `make` and `.ci/run` call it. Tasks run in the environment that nox itself is installed in.

`make setup` makes that environment; nothing is installed here. `nox -l` lists the tasks.
"""

import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["check"]

ROOT = Path(__file__).parent
BIN = Path(sys.executable).parent


def python(session: nox.Session, *args: str) -> None:
    """Run a module or a script with this environment's interpreter."""
    session.run(sys.executable, *args)


@nox.session
def lint(session: nox.Session) -> None:
    """Format and lint, changing nothing."""
    python(session, "-m", "ruff", "format", "--check", ".")
    python(session, "-m", "ruff", "check", ".")


@nox.session
def tidy(session: nox.Session) -> None:
    """Format, and mend what the linter can."""
    python(session, "-m", "ruff", "check", "--fix", ".")
    python(session, "-m", "ruff", "format", ".")


@nox.session
def types(session: nox.Session) -> None:
    """mypy, strict, over src."""
    python(session, "-m", "mypy")


@nox.session
def layers(session: nox.Session) -> None:
    """A lower layer never imports a higher one."""
    session.run(str(BIN / "lint-imports"))


@nox.session
def docs(session: nox.Session) -> None:
    """The pages say what the code does; then build them, a warning being an error."""
    python(session, "-m", "pytest", "-q", "tests/docs")
    python(
        session, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "build/docs/html",
        "-d", "build/docs/doctrees",
    )  # fmt: skip


@nox.session
def cli_page(session: nox.Session) -> None:
    """Write docs/cli.md from the commands' own help."""
    python(session, "docs/cli_reference.py")


@nox.session
def support_matrix(session: nox.Session) -> None:
    """Write the tables of docs/support.md from the rows that decide."""
    python(session, "docs/support_matrix.py")


@nox.session
def demo_table(session: nox.Session) -> None:
    """Put the figures of the last `make demo` into docs/demo.json and the README."""
    python(session, "docs/demo_table.py")


@nox.session
def nano_table(session: nox.Session) -> None:
    """Every packaged model's demo, then its figures into docs/nano.json and docs/nano.md: `-- ITEMS`."""
    items = session.posargs[0] if session.posargs else "128"
    for folder in sorted((ROOT / "src" / "kamera" / "checkpoints").iterdir()):
        out = f"build/nano/{folder.name}"
        session.run(
            str(BIN / "kamera"), "demo", "--model", folder.name, "--out", out, "--items", items
        )
    python(session, "docs/nano_table.py")


@nox.session
def vllm_table(session: nox.Session) -> None:
    """Put the figures of the last `make test-vllm` into docs/vllm.json and docs/vllm.md."""
    python(session, "docs/vllm_table.py")


@nox.session
def readme(session: nox.Session) -> None:
    """The README's own commands, the demo on few items: `nox -s readme -- 64`."""
    items = session.posargs[0] if session.posargs else "64"
    session.run(str(BIN / "kamera"), "--version")
    session.run(str(BIN / "kamera"), "demo", "--out", "build/demo", "--items", items)
    python(session, "examples/quickstart.py")


@nox.session
def test(session: nox.Session) -> None:
    """Every test."""
    python(session, "-m", "pytest", *session.posargs)


@nox.session
def conformance(session: nox.Session) -> None:
    """Every model family, RoPE scheme and dtype against plain Transformers; writes build/conformance.json."""
    # Tiny models: a second thread costs more than it brings.
    session.env["OMP_NUM_THREADS"] = "1"
    python(session, "-m", "kamera.lab.conformance", *session.posargs)


@nox.session
def lab(session: nox.Session) -> None:
    """All of the lab into build/lab.json and .html; a cut: `-- --items 4 --out build/lab-small`."""
    args = session.posargs or ["--items", "64", "--jobs", "2"]
    out = ROOT / (args[args.index("--out") + 1] if "--out" in args else "build/lab")
    session.run(str(BIN / "kamera"), "lab", "all", *args)
    for suffix in (".json", ".html"):
        if not out.with_name(out.name + suffix).exists():
            session.error(f"{out.name}{suffix} was not written")


@nox.session
def lab_table(session: nox.Session) -> None:
    """Put the figures of the last `make lab` into docs/lab: its JSON, a page for each run, pictures."""
    python(session, "docs/lab_table.py")


@nox.session
def bench(session: nox.Session) -> None:
    """Every benchmark but vLLM's; the last line of each is JSON, build/bench.json has all: `-- --short`."""
    python(session, "benchmarks/everything.py", *session.posargs)


@nox.session
def performance_table(session: nox.Session) -> None:
    """Put the figures of the last `make bench` into docs/bench.json and docs/performance.md."""
    python(session, "docs/performance_table.py")


@nox.session
def check(session: nox.Session) -> None:
    """All that must hold before a commit."""
    for task in ("lint", "types", "layers", "docs", "test"):
        session.notify(task)
