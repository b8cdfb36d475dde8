"""Writes the tables of docs/nano.md: `nox -s nano_table`, after `kamera demo` of every packaged model.

The figures are kept in docs/nano.json, taken from build/nano/MODEL/report.json as they stand: none is typed
by hand. A test compares.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "build" / "nano"
FIGURES = Path(__file__).parent / "nano.json"
PAGE = Path(__file__).parent / "nano.md"
START, END = "<!-- nano tables -->", "<!-- /nano tables -->"
ARMS = ("re-prefill", "blind", "patch 1", "patch 4", "patch 16")

Report = dict[str, Any]


def kept(report: Report) -> Report:
    """The part of a report that the page quotes."""
    return {name: report[name] for name in ("environment", "tasks", "operator", "windows")}


def section(figures: dict[str, Report]) -> str:
    """What stands between the markers."""
    return "\n".join([*_tasks(figures), "", *_operator(figures), "", *_windows(figures)])


def _tasks(figures: dict[str, Report]) -> list[str]:
    lines = [
        "Accuracy on held-out items; KL is to re-prefill, in nats:",
        "",
        "| model | task | n | " + " | ".join(ARMS) + " | KL blind | KL patch 16 | η patch 16 |",
        "| --- | --- |" + " ---: |" * (len(ARMS) + 4),
    ]
    for model, report in figures.items():
        for task, arms in report["tasks"].items():
            accuracies = " | ".join(f"{arms[arm]['accuracy']:.3f}" for arm in ARMS)
            blind, patched = arms["blind"], arms["patch 16"]
            lines.append(
                f"| `{model}` | `{task}` | {blind['n']} | {accuracies} | {blind['kl']:.2g} "
                f"| {patched['kl']:.1e} | {patched['eta']:.4f} |"
            )
    return lines


def _operator(figures: dict[str, Report]) -> list[str]:
    lines = [
        "Exactness on a real frame (float32; offsets up to 30,000):",
        "",
        "| model | layer-0 keys after relocation, relative | position-free channel identical "
        "| bf16, ULP | after 1,000 slides | full-rank KL, worst item |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for model, report in figures.items():
        got = report["operator"]
        lines.append(
            f"| `{model}` | {got['layer0_key_error']:.1e} | {got['values_identical']} "
            f"| {got['bf16_ulp']:.2f} | {got['slides_error']:.1e} | {got['full_rank_kl_max']:.1e} |"
        )
    return lines


def _windows(figures: dict[str, Report]) -> list[str]:
    n = next(iter(figures.values()))["windows"]["orbit"]["n"]
    models = list(figures)
    lines = [
        f"Window operations on the binding task ({n} items a model), each beside the paper's figure for its",
        "family (`–`: not measured there):",
        "",
        "| | " + " | ".join(f"`{m}` | paper" for m in models) + " |",
        "| --- |" + " ---: |" * (2 * len(models)),
    ]
    for label, probe, ours, theirs in _ROWS:
        cells = []
        for report in figures.values():
            got = report["windows"][probe]
            cells += [_number(ours(got)), _number(got["paper"].get(theirs))]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


_ROWS: tuple[tuple[str, str, Any, str], ...] = (
    ("recall, all antecedents new: η stale", "recall", lambda r: r["eta_stale"][-1], "eta_stale"),
    ("recall: η of a fresh patch (rank 32)", "recall", lambda r: r["eta_fresh"][-1], "eta_fresh"),
    ("recall: flip-recover, stale", "recall", lambda r: r["flip_recover_stale"], "flip_stale"),
    ("recall: flip-recover, fresh", "recall", lambda r: r["flip_recover_fresh"], "flip_fresh"),
    ("survivor kept as it is: KL", "survivor", lambda r: r["kl_keep"], "kl"),
    ("survivor: η of a removal patch", "survivor", lambda r: r["eta_removal"], "eta_removal"),
    (
        "survivor whose answer has left: KL",
        "survivor",
        lambda r: r["told_by_departed"]["kl_keep"],
        "",
    ),
    ("reorder: η of the orbit patch", "orbit", lambda r: r["eta_orbit"], "eta_orbit"),
    ("reorder: η of the ordering's own", "orbit", lambda r: r["eta_exact"], "eta_exact"),
)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.0e}"


def page(text: str, figures: dict[str, Report]) -> str:
    """The page with the tables put between their markers."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{section(figures)}\n{END}{after}"


if __name__ == "__main__":
    reports = sorted(REPORTS.glob("*/report.json"))
    figures = {path.parent.name: kept(json.loads(path.read_text("utf-8"))) for path in reports}
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")
