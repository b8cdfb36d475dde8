"""Writes docs/lab/: a page for each run of the lab and the index. `nox -s lab_table`, after `make lab`.

The figures are kept in docs/lab/lab.json, taken from build/lab.json as they stand: none is typed by hand.
Which claims of the paper hold is told from them too. Tests compare.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kamera.lab.reproductions.chart import Chart
from kamera.lab.reproductions.judge import Judged, broken, count, failures, judge, measured, shown
from kamera.lab.reproductions.reproduction import Reproduction
from kamera.lab.runs.catalog import RUNS
from kamera.lab.runs.prose import in_cell
from kamera.lab.runs.svg import draw_svg

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "build" / "lab.json"
LAB = Path(__file__).parent / "lab"
FIGURES = LAB / "lab.json"
INDEX = "index"
STEMS = {"probes": "probe-figures"}
"""Pages of another name: probes.md says in words what each probe is."""

INTRODUCTION = """\
This page is written by `nox -s lab_table` from `docs/lab/lab.json`, which `make lab` made.
[The index](index.md) says how to read it, [arms](../arms.md) what each arm does, [nano models](../nano.md)
what it runs on.
"""
READING = """\
Written by `nox -s lab_table` from `docs/lab/lab.json`, which `make lab` made: no figure is typed by hand. The
paper's figures are of large models on public benchmarks, ours of nano models on tasks that were made to need
what is asked: the shape is compared, not the size. With a checkpoint of yours: `kamera lab all --model PATH`.

A row is decided by its rule on our figure; **bold** breaks it. In brackets: bootstrap 95 % intervals over
items. η = 1 - KL(arm) / KL(blind), KL in nats to re-prefill; flip-recover is the share of the answers that
blind reuse changes which the arm restores. *Shown* are figures that no rule decides. Where all items agree, a
bootstrap gives an interval of no width, e.g. [1.000, 1.000]: of 64 items that says "above 0.94" at 95 %.
"""
BEST = """\
The token arm is the one of highest η among those that keep no more bytes, oracles among them, chosen on the
tested items themselves, which favors the token arms. The p-value of Δη is that of Wilcoxon's signed-rank test
of the items' KL; that of accuracy is McNemar's, exact. Tokens are whole, so that the token arm may keep fewer
bytes: the column beside it says by how much.
"""

Section = dict[str, Any]


def pages(report: Section) -> dict[str, str]:
    """Stem -> the page's text: the index, and one for each run that the report has."""
    found = {STEMS.get(name, name): page(one, report[name]) for name, one in known(report).items()}
    return {INDEX: index(report), **found}


def pictures(report: Section) -> dict[str, list[Chart]]:
    """Stem -> what its picture shows, of runs that have one."""
    found = {
        STEMS.get(name, name): one.charts(measured(report[name]))
        for name, one in known(report).items()
        if measured(report[name])
    }
    return {stem: charts for stem, charts in found.items() if charts}


def known(report: Section) -> dict[str, Reproduction]:
    """Runs that the report has, in the catalog's order."""
    return {name: one for name, one in RUNS.items() if name in report}


def page(one: Reproduction, section: Section) -> str:
    """One run's."""
    judged, stem = judge(one, section), STEMS.get(one.name, one.name)
    models = list(section["models"])
    parts = [f"# {heading(one)}", "", INTRODUCTION]
    parts += _part("What does not hold on ours", _rows(judged, "does not hold"), models)
    parts += [*_failed(section), *_whys(judged)]
    parts += _part("What holds", _rows(judged, "holds"), models)
    for title, verdict in (("Shown beside the paper's", "shown"), ("Not measured", "not measured")):
        rows = _rows(judged, verdict)
        parts += _part(title, rows, models) if rows else []
    if measured(section) and one.charts(measured(section)):
        parts += ["## Figure", "", f"![{in_cell(one.title)}](figures/{stem}.svg)", ""]
    parts += ["## What the paper measured", "", one.paper, ""]
    parts += ["## What ours is", "", one.ours, ""]
    parts += ["## How it was made", "", _made(section)]
    parts += list(_more(section)) if one.name == "binding" else []
    return "\n".join(parts).rstrip() + "\n"


def heading(one: Reproduction) -> str:
    """`Table 6: its title` for the paper's own; else the title."""
    name = one.name.replace("fig", "figure ").replace("table", "table ").replace("-", " ")
    return one.title if one.name in ("binding", "probes") else f"{name.title()}: {one.title}"


def _rows(judged: Sequence[Judged], verdict: str) -> list[Judged]:
    return [row for row in judged if row.verdict == verdict]


def _part(title: str, rows: Sequence[Judged], models: Sequence[str]) -> list[str]:
    lines = [f"## {title}", ""]
    if not rows:
        return [*lines, "Nothing that is looked at here.", ""]
    lines += ["| | paper | rule | " + " | ".join(f"`{name}`" for name in models) + " |"]
    lines += ["| --- | --- | --- |" + " ---: |" * len(models)]
    for row in rows:
        claim = row.claim
        cells = [in_cell(text) for text in (claim.label, claim.paper, claim.rule.text)]
        cells += [_figure(row, name) for name in models]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _figure(row: Judged, model: str) -> str:
    text = shown(row.figures[model])
    return f"**{text}**" if row.verdicts[model] == "does not hold" else text


def _whys(judged: Sequence[Judged]) -> list[str]:
    """Each reason once, with the claims that it is of."""
    lines = [
        f"- {why} ({'; '.join(row.claim.label for row in rows)})."
        for why, rows in broken(judged).items()
        if why
    ]
    return ["Why ours may differ:", "", *lines, ""] if lines else []


def _failed(section: Section) -> list[str]:
    lines = [f"- `{name}`: {in_cell(why)}" for name, why in failures(section).items()]
    return ["Failed:", "", *lines, ""] if lines else []


def _made(section: Section) -> str:
    ran, commit = section["environment"], section["commit"]
    at = (commit["id"] or "unknown")[:12] + (", changed" if commit["changed"] else "")
    models = measured(section)
    dtypes = ", ".join(sorted({model["dtype"] for model in models.values()})) or "no model"
    learned = sorted({m["num_learned"] for m in models.values() if "num_learned" in m})
    train = f"{learned[0]} train items for arms that learn, " if learned else ""
    seconds = sum(model["seconds"] for model in models.values())
    return (
        f"`{section['command']}`: {section['n']} test items of a task, {dtypes}, seed {section['seed']}, "
        f"{train}commit {at}; torch {ran['torch']}, Transformers {ran['transformers']}, {ran['machine']}, "
        f"{ran['num_threads']} thread(s); {seconds / 60:.1f} minutes of one core. What several runs take "
        "from a model is measured once, by the first of them.\n"
    )


def index(report: Section) -> str:
    """Which claims hold, on which model."""
    runs = known(report)
    judged = {name: judge(one, report[name]) for name, one in runs.items()}
    models = list(dict.fromkeys(model for name in runs for model in report[name]["models"]))
    lines = ["# The lab's figures", "", READING]
    lines += ["Claims that hold, of those that a rule decides:", ""]
    lines += ["| | | " + " | ".join(f"`{name}`" for name in models) + " |"]
    lines += ["| --- | --- |" + " ---: |" * len(models)]
    for name, one in runs.items():
        stem = STEMS.get(name, name)
        cells = [_of(judged[name], model) for model in models]
        lines.append(f"| [{name}]({stem}.md) | {in_cell(one.title)} | {' | '.join(cells)} |")
    totals = [_of([row for rows in judged.values() for row in rows], model) for model in models]
    lines += [f"| all | | {' | '.join(totals)} |", "", "## What does not hold on ours", ""]
    lines += [
        "A claim of the paper that breaks its rule on at least one model, and on which.",
        "",
        "| run | claim | paper | rule | does not hold on |",
        "| --- | --- | --- | --- | --- |",
        *_broken(judged),
        "",
    ]
    stems = "\n".join(STEMS.get(name, name) for name in runs)
    return "\n".join([*lines, f"```{{toctree}}\n:maxdepth: 1\n:hidden:\n\n{stems}\n```\n"])


def _of(judged: Sequence[Judged], model: str) -> str:
    counts = count(
        [Judged(r.claim, {}, {model: r.verdicts[model]}) for r in judged if model in r.verdicts]
    )
    decided = counts["holds"] + counts["does not hold"]
    unknown = f", {counts['not measured']} not measured" if counts["not measured"] else ""
    return f"{counts['holds']} of {decided}{unknown}"


def _broken(judged: dict[str, list[Judged]]) -> Iterator[str]:
    for name, rows in judged.items():
        for row in _rows(rows, "does not hold"):
            models = [f"`{model}`" for model, v in row.verdicts.items() if v == "does not hold"]
            claim = row.claim
            cells = [in_cell(text) for text in (claim.label, claim.paper, claim.rule.text)]
            link = f"[{name}]({STEMS.get(name, name)}.md)"
            yield f"| {link} | {' | '.join(cells)} | {', '.join(models)} |"


def _more(section: Section) -> Iterator[str]:
    """What the binding page has besides: the comparisons at equal bytes, and every arm."""
    yield from _paired(section)
    for name, model in measured(section).items():
        yield from _arms(name, model)


def _paired(section: Section) -> list[str]:
    lines = [
        "## The patch against the best token arm of no more bytes",
        "",
        BEST,
        "| model | patch | token arm | patch's bytes over its | Δη | p | Δ accuracy | p |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, model in measured(section).items():
        for pair in model["paired"]:
            start = f"| `{name}` | m = {pair['rank']} | "
            if pair["other"] is None:
                lines.append(start + "none is so small | – | – | – | – | – |")
                continue
            eta, ratio, accuracy = pair["eta"], pair["bytes_ratio"], pair["accuracy"]
            cells = [
                f"`{pair['other']}`",
                "–" if ratio is None else f"{ratio:.2f}",
                shown(eta),
                "–" if eta is None else f"{eta['p_value']:.1g}",
                shown(accuracy),
                f"{accuracy['p_value']:.2g}",
            ]
            lines.append(f"{start}{' | '.join(cells)} |")
    return [*lines, ""]


def _arms(name: str, model: Section) -> list[str]:
    flips = model["arms"]["blind"]["num_flips"]
    lines = [
        f"## {name}",
        "",
        f"Blind reuse changes {flips} answers. KL in nats; kB: kept for one window beside the canonicals.",
        "",
        "| arm | kind | accuracy | agreement | KL | η | flip-recover | kB |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for arm, row in model["arms"].items():
        ends = row["intervals"]
        lines.append(
            f"| `{arm}` | {row['kind']} | {shown(ends['accuracy'])} | {shown(ends['agreement'])} "
            f"| {shown(ends['kl'])} | {shown(ends['eta'])} | {shown(ends['flip_recover'])} "
            f"| {row['num_bytes'] / row['n'] / 1000:.1f} |"
        )
    return [*lines, ""]


def write(report: Section) -> None:
    """Every page and picture; those of runs that are gone, go."""
    folder = LAB / "figures"
    folder.mkdir(exist_ok=True)
    drawn = {f"{stem}.svg": draw_svg(charts) for stem, charts in pictures(report).items()}
    for old in set(folder.iterdir()) - {folder / name for name in drawn}:
        old.unlink()
    for name, svg in drawn.items():
        (folder / name).write_text(svg, encoding="utf-8")
    for stem, text in pages(report).items():
        (LAB / f"{stem}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    shutil.copyfile(REPORT, FIGURES)
    write(json.loads(FIGURES.read_text(encoding="utf-8")))
