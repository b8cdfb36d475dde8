"""Writes docs/lab/binding.md: `nox -s lab_table`, after `make lab`. A test compares.

The figures are kept in docs/lab/lab.json, taken from build/lab.json as they stand: none is typed by hand.
Which claims of the paper hold is told from them too.
"""

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "build" / "lab.json"
FIGURES = Path(__file__).parent / "lab" / "lab.json"
PAGE = Path(__file__).parent / "lab" / "binding.md"
INTRODUCTION = """\
# The binding task under every arm

This page is written by `nox -s lab_table` from `docs/lab/lab.json`, which `make lab` made; every item's KL
and answer are in it. [Arms](../arms.md) says what each arm does, [nano models](../nano.md) what it runs on.
η = 1 - KL(arm) / KL(blind); flip-recover is the share of the answers that blind reuse changes which the arm
restores. In brackets: bootstrap 95 % intervals over items.
"""
READING = """\
A row is decided by its rule on our figure; **bold** breaks it. The paper's figures are of large models on
public benchmarks, ours of nano models on one task that was made to need binding. A rank-m patch keeps
m · (T + F) numbers where the KV has T · F, so that its bytes weigh more on short chunks. A margin in η of
0.001 or less counts as none: both arms are at re-prefill then.
"""
BEST = """\
The token arm is the one of highest η among those that keep no more bytes, oracles among them, chosen on the
tested items themselves, which favors the token arms. The p-value of Δη is that of Wilcoxon's signed-rank test
of the items' KL; that of accuracy is McNemar's, exact. Tokens are whole, so that the token arm may keep fewer
bytes: the column beside it says by how much.
"""

PROBES = """\
Means over the items, without intervals or a verdict; two figures are of the two channels, K and V or the
latent and the rotated key. [Probes](probes.md) says what each measures. Recall is of the half of B's tokens
with the largest ‖Δ‖. Where the functional rank is 1, what is lost is thinner than in the paper, and its knee
isn't tested.
"""
PROBE_ROWS: tuple[tuple[str, str, Any], ...] = (
    ("functional rank", "knee at 8 to 16", lambda p: [p["rank_sweep"]["functional_rank"]]),
    ("e90 / n_B", "at most 0.30", lambda p: [c["e90_share"] for c in p["energy"].values()]),
    (
        "‖Δ‖ relative to KV, deepest third over first third",
        "0.08 to 0.49 with depth",
        lambda p: [c["deep_over_shallow"] for c in p["depth_profile"].values()],
    ),
    ("share of the tokens that holds 90 % of ‖Δ‖²", "–", lambda p: [_tokens(p)["share_for_90"]]),
    ("η of the top half of the tokens", "–", lambda p: [_at(_tokens(p), "oracle_eta", 0.5)]),
    ("η of the top 15 %", "–", lambda p: [_at(_tokens(p), "oracle_eta", 0.15)]),
    ("recall, attention to A, all layers", "0.70", lambda p: [_recall(p, "cross_mass")]),
    ("recall, first tokens", "0.63", lambda p: [_recall(p, "position")]),
    ("recall, key norm", "0.46", lambda p: [_recall(p, "key_norm")]),
    ("recall, KV deviation in layer 1", "–", lambda p: [_recall(p, "kv_deviation")]),
    ("recall, leverage", "–", lambda p: [_recall(p, "leverage")]),
    ("recall, at random", "–", lambda p: [p["selector_recall"]["random"]]),
)

Section = dict[str, Any]


def page(report: dict[str, Any]) -> str:
    """The whole page."""
    section = report["binding"]
    parts = [INTRODUCTION, _made(section), _claims(section), _paired(section)]
    parts += [_probes(report["probes"])]
    parts += [_arms(name, model) for name, model in section["models"].items()]
    return "\n".join(parts)


def _made(section: Section) -> str:
    """How the figures were made."""
    ran, commit = section["environment"], section["commit"]
    at = (commit["id"] or "unknown")[:12] + (", changed" if commit["changed"] else "")
    dtypes = ", ".join(sorted({model["dtype"] for model in section["models"].values()}))
    learned = (
        f"{section['num_learned']} train items for arms that learn; "
        if "num_learned" in section
        else ""
    )
    seconds = sum(model["seconds"] for model in section["models"].values())
    return (
        f"`{section['command']}`: {section['n']} test items a model, {dtypes}, seed {section['seed']}, "
        f"{learned}commit {at}; torch {ran['torch']}, "
        f"Transformers {ran['transformers']}, {ran['machine']}, {ran['num_threads']} thread(s); "
        f"{seconds / 60:.1f} minutes.\n"
    )


def _claims(section: Section) -> str:
    models = section["models"]
    heading = [
        "| | paper | rule | " + " | ".join(f"`{name}`" for name in models) + " |",
        "| --- | --- | --- |" + " ---: |" * len(models),
    ]
    fails, holds = [], []
    for claim in claims().CLAIMS:
        figures = [claim.ours(model) for model in models.values()]
        wrong = [ours is not None and not claim.holds(ours) for ours in figures]
        cells = [
            f"**{_shown(ours)}**" if bad else _shown(ours)
            for ours, bad in zip(figures, wrong, strict=True)
        ]
        row = f"| {claim.figure} | {claim.paper} ({claim.place}) | {claim.rule} | {' | '.join(cells)} |"
        (fails if any(wrong) else holds).append(row)
    lines = ["## What does not hold on ours", "", READING]
    lines += [*heading, *fails] if fails else ["Nothing that is looked at here."]
    lines += ["", "## What holds", ""]
    lines += [*heading, *holds] if holds else ["Nothing that is looked at here."]
    return "\n".join([*lines, ""])


def _paired(section: Section) -> str:
    lines = [
        "## The patch against the best token arm of no more bytes",
        "",
        BEST,
        "| model | patch | token arm | patch's bytes over its | Δη | p | Δ accuracy | p |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, model in section["models"].items():
        for pair in model["paired"]:
            start = f"| `{name}` | m = {pair['rank']} | "
            if pair["other"] is None:
                lines.append(start + "none is so small | – | – | – | – | – |")
                continue
            eta, ratio, accuracy = pair["eta"], pair["bytes_ratio"], pair["accuracy"]
            cells = [
                f"`{pair['other']}`",
                "–" if ratio is None else f"{ratio:.2f}",
                _shown(eta),
                "–" if eta is None else f"{eta['p_value']:.1g}",
                _shown(accuracy),
                f"{accuracy['p_value']:.2g}",
            ]
            lines.append(f"{start}{' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _probes(section: Section) -> str:
    models = section["models"]
    lines = ["## Probes of what is lost", "", PROBES, _made(section)]
    lines += ["| | paper | " + " | ".join(f"`{name}`" for name in models) + " |"]
    lines += ["| --- | --- |" + " ---: |" * len(models)]
    for label, paper, figures in PROBE_ROWS:
        cells = [
            " / ".join("–" if f is None else f"{f:.2g}" for f in figures(model["probes"]))
            for model in models.values()
        ]
        lines.append(f"| {label} | {paper} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _tokens(probes: Section) -> Section:
    return probes["token_diffuseness"]


def _at(tokens: Section, key: str, share: float) -> float | None:
    return tokens[key][tokens["shares"].index(share)]


def _recall(probes: Section, selector: str) -> float:
    return probes["selector_recall"]["recall"][selector]


def _arms(name: str, model: Section) -> str:
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
        shown = row["intervals"]
        lines.append(
            f"| `{arm}` | {row['kind']} | {_shown(shown['accuracy'])} | {_shown(shown['agreement'])} "
            f"| {_shown(shown['kl'])} | {_shown(shown['eta'])} | {_shown(shown['flip_recover'])} "
            f"| {row['num_bytes'] / row['n'] / 1000:.1f} |"
        )
    return "\n".join([*lines, ""])


def _shown(interval: dict[str, Any] | None) -> str:
    """A figure with its interval, where it has one."""
    if interval is None:
        return "–"
    value, low, high = (interval[key] for key in ("value", "low", "high"))
    return _number(value) if low is None else f"{_number(value)} [{_number(low)}, {_number(high)}]"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.0e}"


def claims() -> ModuleType:
    """docs/lab_claims.py; docs is no package."""
    path = Path(__file__).parent / "lab_claims.py"
    spec = importlib.util.spec_from_file_location("lab_claims", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lab_claims"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    shutil.copyfile(REPORT, FIGURES)
    PAGE.write_text(page(json.loads(FIGURES.read_text(encoding="utf-8"))), encoding="utf-8")
