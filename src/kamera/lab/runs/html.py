"""The report as one HTML file that needs nothing else: made from its JSON alone."""

from __future__ import annotations

import html
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kamera.errors import ConfigError
from kamera.lab.reproductions.claim import Verdict
from kamera.lab.reproductions.judge import (
    ORDER,
    Judged,
    Section,
    broken,
    count,
    failures,
    judge,
    measured,
    shown,
)
from kamera.lab.reproductions.reproduction import Reproduction
from kamera.lab.runs.benchmark import PREFIX
from kamera.lab.runs.html_arms import benchmark_arms, every_arm
from kamera.lab.runs.prose import to_html
from kamera.lab.runs.report import read_report, write_whole
from kamera.lab.runs.svg import draw_svg

CLASSES: Mapping[Verdict, str] = {
    "does not hold": "bad",
    "holds": "good",
    "not measured": "none",
    "shown": "shown",
}
STYLE = """\
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2430; max-width: 78rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3.5rem; border-top: 1px solid #d7dce3; padding-top: 1.2rem; }
table { border-collapse: collapse; margin: .8rem 0; } .wide { overflow-x: auto; }
th, td { padding: .28rem .6rem; border-bottom: 1px solid #e4e8ee; text-align: left; vertical-align: top; }
th { background: #f4f6f9; } td.figure { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.count { text-align: right; } .word { display: block; font-size: .78rem; }
.bad { background: #fde8e4; } .bad .word, .failed { color: #a4200c; font-weight: 600; }
.good { background: #e6f4ea; } .good .word { color: #14652f; }
.none, .shown { background: none; } .none .word, .shown .word { color: #6a7280; }
.why, .made { color: #4b5563; font-size: .9rem; } .kind { font-size: .78rem; color: #6a7280; }
svg { max-width: 100%; height: auto; } code { background: #f1f3f6; padding: 0 .2em; }
"""


def write_page(report: Path, page: Path, runs: Mapping[str, Reproduction]) -> None:
    """Draw a report's file.

    Raises:
        ConfigError: there is no report of the lab there, or the page can't be written.
    """
    if not report.exists():
        raise ConfigError(
            f"Can't read {report}: expected a report of the lab, there is no such file"
        )
    text = page_of(read_report(report), runs)
    try:
        write_whole(page, text)
    except OSError as error:
        raise ConfigError(f"Can't write {page}: expected a file, got: {error}") from error


def page_of(report: Mapping[str, Any], runs: Mapping[str, Reproduction]) -> str:
    """The whole file.

    Args:
        report: as `read_report` gives it.
        runs: by section; of the other sections benchmarks alone are shown.
    """
    known = {name: runs[name] for name in runs if name in report}
    absent = [name for name in runs if name not in report]
    judged = {name: judge(one, report[name]) for name, one in known.items()}
    parts = [_index(known, judged, report)]
    parts += [f"<p>Not in this report: {_text(', '.join(absent))}.</p>"] if absent else []
    parts += [_section(one, report[name], judged[name]) for name, one in known.items()]
    parts += [_benchmark(name, report[name]) for name in report if name.startswith(PREFIX)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Kamera: the lab</title>\n<style>{STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _index(
    runs: Mapping[str, Reproduction], judged: Mapping[str, list[Judged]], report: Mapping[str, Any]
) -> str:
    counts = {name: count(rows) for name, rows in judged.items()}
    total = {verdict: sum(of_run[verdict] for of_run in counts.values()) for verdict in ORDER}
    rows = []
    for name, one in runs.items():
        cells = "".join(_count(verdict, counts[name][verdict]) for verdict in ORDER)
        num_failed = len(failures(report[name]))
        failed = f'<span class="failed">{num_failed} failed</span>' if num_failed else ""
        rows.append(
            f'<tr><td><a href="#{_id(name)}">{_text(name)}</a></td><td>{to_html(one.title)} {failed}</td>'
            f"{cells}</tr>"
        )
    heading = "".join(f"<th>{verdict}</th>" for verdict in ORDER)
    summary = ", ".join(f"{total[verdict]} {verdict}" for verdict in ORDER)
    return (
        "<h1>Kamera: the lab</h1>\n"
        "<p>Claims of the paper beside our figures. A row is decided by its rule on our figure; in brackets: "
        "bootstrap 95&nbsp;% intervals over items. What is only <i>shown</i> has no rule.</p>\n"
        f"<p>A claim on a model counts as one: <b>{summary}</b>.</p>\n"
        f"{_extent(runs, report)}"
        f"<table><thead><tr><th>run</th><th></th>{heading}</tr></thead>\n"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _extent(runs: Mapping[str, Reproduction], report: Mapping[str, Any]) -> str:
    """On what, of how many items: what a figure is worth, told before the figures."""
    sections = [report[name] for name in runs]
    if not sections:
        return ""
    models = ", ".join(dict.fromkeys(name for section in sections for name in section["models"]))
    numbers = sorted({int(section["n"]) for section in sections})
    items = " or ".join(map(str, numbers))
    least = max(numbers[0], 1)
    return (
        f"<p>On <b>{_text(models)}</b>, <b>{items} items</b> of a task; some runs take a half or a quarter "
        "of them. Where all items agree, the bootstrap's interval has no width: [1.000, 1.000] of "
        f"{least} items says no more than &ldquo;above {0.025 ** (1 / least):.2f}&rdquo;.</p>\n"
    )


def _count(verdict: Verdict, number: int) -> str:
    return f'<td class="count {CLASSES[verdict] if number else ""}">{number or ""}</td>'


def _section(one: Reproduction, section: Section, judged: Sequence[Judged]) -> str:
    parts = [f'<h2 id="{_id(one.name)}">{_text(one.name)}: {to_html(one.title)}</h2>']
    parts += [
        f'<p class="failed">{_text(model)} was not measured: {_text(why)}</p>'
        for model, why in failures(section).items()
    ]
    parts.append(_does_not_hold(judged))
    parts.append(_claims(judged, list(section["models"])))
    parts.append(_pictures(one, section))
    parts += [
        f"<details><summary>Every arm on {_text(name)}</summary>{every_arm(model)}</details>"
        for name, model in measured(section).items()
        if "arms" in model
    ]
    parts.append(f"<p><b>The paper.</b> {to_html(one.paper)}</p>")
    parts.append(f"<p><b>Ours.</b> {to_html(one.ours)}</p>")
    parts.append(f'<p class="made">{_made(section)}</p>')
    return "\n".join(parts)


def _benchmark(name: str, section: Section) -> str:
    """A public benchmark: no claim is judged on it."""
    parts = [f'<h2 id="{_id(name)}">{_text(name)}</h2>']
    for model, found in measured(section).items():
        metric = f"{found['metric']}; {found['n']} items, {found['num_left_out']} left out"
        parts += [f"<p><b>{_text(model)}</b>: {_text(metric)}</p>", benchmark_arms(found)]
    return "\n".join([*parts, f'<p class="made">{_made(section)}</p>'])


def _does_not_hold(judged: Sequence[Judged]) -> str:
    lines = []
    for why, rows in broken(judged).items():
        claims = "; ".join(
            f'{to_html(row.claim.label)} <span class="kind">on {_text(", ".join(_where(row)))}</span>'
            for row in rows
        )
        reason = f'<div class="why">{to_html(why)}.</div>' if why else ""
        lines.append(f"<li>{claims}{reason}</li>")
    if not lines:
        return "<p>Nothing that is looked at here breaks its rule.</p>"
    return f"<p><b>What does not hold on ours</b></p><ul>{''.join(lines)}</ul>"


def _where(row: Judged) -> list[str]:
    return [name for name, verdict in row.verdicts.items() if verdict == "does not hold"]


def _claims(judged: Sequence[Judged], models: Sequence[str]) -> str:
    heading = "".join(f"<th>{_text(name)}</th>" for name in models)
    ordered = sorted(judged, key=lambda row: ORDER.index(row.verdict))
    rows = "".join(
        f"<tr><td>{to_html(row.claim.label)}</td><td>{to_html(row.claim.paper)}</td>"
        f"<td>{to_html(row.claim.rule.text)}</td>"
        + "".join(_verdict(row, name) for name in models)
        + "</tr>"
        for row in ordered
    )
    return (
        '<div class="wide"><table><thead><tr><th>claim</th><th>the paper</th><th>rule</th>'
        f"{heading}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
    )


def _verdict(row: Judged, model: str) -> str:
    verdict = row.verdicts[model]
    figure = _text(shown(row.figures[model]))
    return f'<td class="figure {CLASSES[verdict]}">{figure}<span class="word">{verdict}</span></td>'


def _pictures(one: Reproduction, section: Section) -> str:
    try:
        models = measured(section)
        charts = one.charts(models) if models else []
        svg = draw_svg(charts) if charts else ""
    except Exception as error:  # the figures are kept: they are worth more than the picture
        traceback.print_exc()
        return f'<p class="failed">The picture can\'t be drawn: {_text(repr(error))}</p>'
    if not svg:
        return ""
    for name in ("", ":xlink"):  # the file then holds no address; HTML needs none of them
        start = svg.find(f' xmlns{name}="')
        if start >= 0:
            svg = svg[:start] + svg[svg.index('"', svg.index('"', start) + 1) + 1 :]
    return f'<figure role="img" aria-label="{_text(one.title)}">{svg}</figure>'


def _made(section: Section) -> str:
    ran, commit = section["environment"], section["commit"]
    at = (commit["id"] or "unknown") + (" with changes" if commit["changed"] else "")
    models = "; ".join(
        f"{name} ({model['dtype']}, digest {model['digest'][:12]}, {model['seconds']} s)"
        for name, model in measured(section).items()
    )
    facts = {
        "Command": section["command"],
        "Models": models or "none",
        "n": section["n"],
        "Seed": section["seed"],
        "Commit": at,
        "Ran on": ", ".join(f"{key} {value}" for key, value in ran.items()),
    }
    return "<br>\n".join(f"{label}: <code>{_text(value)}</code>" for label, value in facts.items())


def _id(name: str) -> str:
    return html.escape(name, quote=True)


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
