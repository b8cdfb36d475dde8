"""Writes the README's demo table: `nox -s demo_table`, after `make demo`. A test compares.

The figures are kept in docs/demo.json, taken from build/demo/report.json as they stand: none is typed by
hand.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "build" / "demo" / "report.json"
FIGURES = Path(__file__).parent / "demo.json"
README = ROOT / "README.md"
START, END = "<!-- demo table -->", "<!-- /demo table -->"
FORMED = (
    "*Formed off the path*: forwards that make canonicals and patches, which can run after the answer.",
    "They are paid once for a chunk behind an antecedent, so a short run like this one forms more than",
    "it saves; a second run on the same store forms nothing that it finds.",
)
ARMS = ("re-prefill", "blind", "patch 1", "patch 4", "patch 16")


def kept(report: dict[str, Any]) -> dict[str, Any]:
    """The part of a report that the pages quote."""
    replay = {"totals": report["replay"]["totals"], "steps": len(report["replay"]["steps"])}
    names = ("version", "model", "environment", "tasks", "operator", "windows")
    return {**{name: report[name] for name in names}, "replay": replay}


def section(figures: dict[str, Any]) -> str:
    """What stands between the markers."""
    tasks = figures["tasks"]
    n = tasks["binding"]["blind"]["n"]
    lines = [
        f"Accuracy on {n} held-out items of each task; KL is to re-prefill, in nats:",
        "",
        "| task | " + " | ".join(ARMS) + " | KL blind | KL patch 16 | η patch 16 |",
        "| --- |" + " ---: |" * (len(ARMS) + 3),
    ]
    for name, arms in tasks.items():
        accuracies = " | ".join(f"{arms[arm]['accuracy']:.3f}" for arm in ARMS)
        blind, patched = arms["blind"], arms["patch 16"]
        lines.append(
            f"| `{name}` | {accuracies} | {blind['kl']:.2g} | {patched['kl']:.1e} "
            f"| {patched['eta']:.4f} |"
        )
    return "\n".join([*lines, "", *_windows(figures["windows"]), "", *_replay(figures["replay"])])


def _windows(windows: dict[str, Any]) -> list[str]:
    orbit, survivor, recall = (windows[name] for name in ("orbit", "survivor", "recall"))
    rows = [
        (
            "reorder: η of the orbit patch, tested ordering held out",
            orbit["eta_orbit"],
            "eta_orbit",
        ),
        ("reorder: η of that ordering's own patch", orbit["eta_exact"], "eta_exact"),
        ("slide: KL of a survivor kept as it is", survivor["kl_keep"], "kl"),
        (
            "slide: the same, when what it had absorbed has left",
            survivor["told_by_departed"]["kl_keep"],
            "",
        ),
        ("recall: η of the stale patch, all antecedents new", recall["eta_stale"][-1], "eta_stale"),
        ("recall: η of a fresh patch", recall["eta_fresh"][-1], "eta_fresh"),
    ]
    paper = {**orbit["paper"], **survivor["paper"], **recall["paper"], "": "not measured"}
    lines = [
        f"| window operation ({orbit['n']} items) | nano-gqa | paper, Qwen2.5-VL-7B |",
        "| --- | ---: | ---: |",
    ]
    return lines + [f"| {label} | {ours:.3f} | {paper[key]} |" for label, ours, key in rows]


def _replay(replay: dict[str, Any]) -> list[str]:
    lines = [
        f"A window of three over eight views of two photographs, {replay['steps']} requests in all:",
        "",
        "| arm | tokens prefilled | formed off the path | vision runs | median TTFT | same answer |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for arm, total in replay["totals"].items():
        lines.append(
            f"| {arm} | {total['num_prefilled']:,} | {total['num_formed']:,} "
            f"| {total['num_vision_runs']} | {1000 * total['median_ttft_s']:.0f} ms "
            f"| {total['num_same_answers']}/{total['num_steps']} |"
        )
    return [*lines, "", *FORMED]


def readme(text: str, figures: dict[str, Any]) -> str:
    """The README with the section put between its markers."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{section(figures)}\n{END}{after}"


if __name__ == "__main__":
    figures = kept(json.loads(REPORT.read_text(encoding="utf-8")))
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8"), figures), encoding="utf-8")
