"""Writes docs/performance.md: `nox -s performance_table`, after `make bench`. A test compares.

The figures are kept in docs/bench.json, taken from build/bench.json as they stand: none is typed by hand, but
for those that others published. Which aims are reached is told from them too. A benchmark that isn't in the
report is said to be missing.
"""

import json
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "build" / "bench.json"
FIGURES = Path(__file__).parent / "bench.json"
PAGE = Path(__file__).parent / "performance.md"

Report = dict[str, Any]

INTRODUCTION = """\
# Performance

This page is written by `nox -s performance_table` from `docs/bench.json`, which `make bench` made
(`benchmarks/`, one script a question). {gpu}: compare ratios, not times. Each figure
is a median of interleaved rounds with its quartiles; × is the ratio to the ceiling, what nothing on this
machine could beat, named beside it. A figure is noisy (~) when its quartiles lie further apart than
{noisy:.0%} of it.
"""
EXPECTED = (
    "amortise", "apply", "bytes", "form", "plan", "rank_bytes", "scale", "store", "ttft",
)  # fmt: skip
PAPER_TTFT = {256: 1.8, 512: 3.1, 1024: 8.0, 2048: 29.3}
PAPER_SHARING = {"16": 11.9, "64": 27.0}
PAPER_BREAK_EVEN = 9
LMCACHE = (2.2, 3.3)
HARDWARE = """\
The paper's figures are of SGLang on an H100, LMCache's are its authors' own, of text models on GPUs. This is
a CPU, which computes far less for each byte that it reads than a GPU: a prefill costs more here beside a copy
of its KV, and so does the question's own forward. Each column is of one machine; two columns aren't a race.
"""
TTFT = """\
The window is asked for again behind another one; nothing of it stands in place. `question alone` is the
ceiling: the forward that every arm ends with. It is also what a prefix cache costs where nothing has moved.
Towers are left out of all arms. Times, and how many times the ceiling:
"""
BREAK_EVEN = """\
All costs count: prefill, each chunk's forward alone, the fits, on and off the request's path; with free
forming the first request answers a question as well. Paid forming answers none. Requests until the sums
meet:
"""
SHARING = """\
Files that a store wrote: N conditioned copies over one canonical and N patches. The paper's figures are of a
patch of 2.15 % of the KV (N / (1 + N p)), rank 16 of its MLA model's long context.
"""
ARMS = (
    "question alone", "memcpy + question", "Kamera", "CacheBlend 15%", "prefix cache, shifted",
    "re-prefill",
)  # fmt: skip
NOTES = {
    "apply": "One chunk of 1,024 tokens, all layers, relocated, patched and written, by each kernel of "
    "[the kernels](kernels.md).",
    "form": "Chunk B behind a chunk of 256 tokens. What the request waits for is `verb`; the rest can be run "
    "when nobody waits. In the table, shares of the prefill.",
    "plan": "`held`: the window is in the session; `unknown`: nothing is known; `exact` and `served`: each "
    "chunk has such a patch. A look-up in a dict asks no disk: a fairer limit, the bare questions, is in the "
    "tables of aims.",
    "scale": "How costs grow with a chunk's tokens, with the window, with what the store knows. A slope is "
    "of log time over log size: 1 is linear, 0 is no growth.",
    "store": "A row of reads is a batch of files of one size, 64 MB together (two files of 64 MB); a row of "
    "writes is one file. Hot reads come from the system's page cache; cold ones find it emptied. A plain "
    "read checks nothing; the store's checks every byte.",
}
"""What a section's rows are: of benchmarks that have no text of their own."""
OWN_SECTION = ("ttft", "amortise", "bytes", "rank_bytes")
COMMON = ("benchmark", "rows", "aims", "environment", "seconds", "skipped")
"""What every report has; the rest is a benchmark's own."""
RANK_BYTES = """\
η = 1 - KL(patched) / KL(blind), in brackets its bootstrap 95 % interval; bytes are a share of the chunk's KV
at two bytes a number; energy is the share of the deficit's that is kept. The paper needs 25 % at rank 64, 6 %
at rank 16, for full accuracy. The default: `{default}`.
"""


def page(figures: Report) -> str:
    """The whole page."""
    found = figures["benchmarks"]
    noisy = next((b["environment"]["noisy_above"] for b in found.values()), 0.2)
    on_gpu = "rows" in found.get("apply_gpu", {}) and "skipped" not in found["apply_gpu"]
    gpu = "Only `apply_gpu` ran on a GPU" if on_gpu else "Nothing here was run on a GPU"
    parts = [INTRODUCTION.format(noisy=noisy, gpu=gpu), *_machines(found), *_missed(found)]
    parts += [*_published(found), *_ttft(found), *_break_even(found), *_sharing(found)]
    parts += _rank_bytes(found)
    for name, report in found.items():
        if name not in OWN_SECTION:
            parts += _plain(name, report)
    return "\n".join([*parts, *_reached(found)]).rstrip() + "\n"


def _machines(found: Report) -> list[str]:
    """What they ran on: one line for each machine, commit and number of threads."""
    lines: dict[str, list[str]] = {}
    for name, report in found.items():
        ran, commit = report["environment"], report["environment"]["commit"]
        at = (commit["id"] or "unknown")[:12] + (", changed" if commit["changed"] else "")
        line = (
            f"{ran['cpu']}, {ran['num_cores']} cores, {ran['num_threads']} thread(s), {ran['system']}, "
            f"Python {ran['python']}, torch {ran['torch']}, numpy {ran['numpy']}, commit {at}"
        )
        lines.setdefault(line, []).append(f"`{name}` (load {ran['load_at_start']:.1f})")
    seconds = sum(report.get("seconds", 0.0) for report in found.values())
    return [
        *[f"{line}: {', '.join(names)}." for line, names in lines.items()],
        f"{seconds / 60:.1f} minutes in all; load: of the machine, when the benchmark began.",
        "",
    ]


def _missed(found: Report) -> list[str]:
    """The aims that aren't reached, and the benchmarks that aren't there."""
    lines = ["## What is not reached", ""]
    missed = [(name, a) for name, a in _aims(found) if not a["holds"]]
    lines += _aim_table(missed) if missed else ["Every aim of the benchmarks below is reached.", ""]
    absent = [name for name in EXPECTED if name not in found]
    if absent:
        lines += [f"Not run: {', '.join(f'`{name}`' for name in absent)}.", ""]
    skipped = {name: r["skipped"] for name, r in found.items() if r.get("skipped")}
    lines += [f"`{name}` was left out: {why}\n" for name, why in skipped.items()]
    noisy = [f"`{n}` {len(r)}" for n, r in _noisy(found).items()]
    if noisy:
        lines += [f"Noisy rows: {', '.join(noisy)}.", ""]
    return lines


def _reached(found: Report) -> list[str]:
    held = [(name, a) for name, a in _aims(found) if a["holds"]]
    return ["## What is reached", "", *_aim_table(held)] if held else []


def _aims(found: Report) -> list[tuple[str, Report]]:
    return [(name, one) for name, report in found.items() for one in report.get("aims", [])]


def _aim_table(aims: list[tuple[str, Report]]) -> list[str]:
    lines = ["| | measured | aim | this machine's limit |", "| --- | ---: | ---: | ---: |"]
    whys: dict[str, list[str]] = {}
    for name, one in aims:
        bound = f"≤ {one['at_most']:g}" if "at_most" in one else f"≥ {one['at_least']:g}"
        limit = f"{one['limit']:.3g}" if "limit" in one else "–"
        lines.append(f"| `{name}`: {one['aim']} | {one['value']:.3g} | {bound} | {limit} |")
        if one.get("why") and not one["holds"]:
            whys.setdefault(one["why"], []).append(f"`{name}`: {one['aim']}")
    reasons = [f"- {'; '.join(texts)}. {why[0].upper()}{why[1:]}." for why, texts in whys.items()]
    reasons = ["What stands in the way:", "", *reasons, ""] if reasons else []
    return [*lines, "", *reasons]


def _published(found: Report) -> list[str]:
    """Beside what others published."""
    models = _models(found)
    heads = " | ".join(models)
    lines = ["## Beside published figures", "", HARDWARE]
    lines += [f"| | published | {heads} |", "| --- | ---: |" + " ---: |" * len(models)]
    for tokens in sorted({one["tokens"] for one in _speedups(found)}):
        ours = [_speedup(found, model, tokens, "re-prefill") for model in models]
        theirs = PAPER_TTFT.get(tokens)
        published = "–" if theirs is None else f"{theirs:g} × (paper)"
        lines.append(_row(f"TTFT, re-prefill over reuse, {tokens} tokens", published, ours))
    published = f"{LMCACHE[0]} to {LMCACHE[1]} × (LMCache)"
    blended = [_blended(found, model) for model in models]
    lines.append(_row("TTFT, re-prefill over CacheBlend 15 %, all lengths", published, blended))
    for kind, label in (("free", "free forming"), ("paid", "forming paid for")):
        ours = [_even(found, model, kind) for model in models]
        published = f"{PAPER_BREAK_EVEN} (paper)" if kind == "paid" else "–"
        lines.append(_row(f"reuses until break-even, {label}", published, ours))
    return [*lines, "", *_published_bytes(found)]


def _row(label: str, published: str, ours: list[str]) -> str:
    return f"| {label} | {published} | {' | '.join(ours)} |"


def _published_bytes(found: Report) -> list[str]:
    geometries = found.get("bytes", {}).get("geometries", [])
    if not geometries:
        return []
    lines = [
        "| full copies over one canonical and N patches | paper | "
        + " | ".join(f"{g['geometry']}" for g in geometries) + " |",
        "| --- | ---: |" + " ---: |" * len(geometries),
    ]  # fmt: skip
    for count, theirs in PAPER_SHARING.items():
        for index in (0, 1):
            kept = geometries[0]["patches"][index]
            cells = [f"{g['patches'][index]['sharing'][count]:.1f} ×" for g in geometries]
            label = f"N = {count}, rank {kept['rank']}, {kept['factors']}"
            lines.append(_row(label, f"{theirs:g} ×", cells))
    return [*lines, ""]


def _models(found: Report) -> list[str]:
    return list(dict.fromkeys(one["model"] for one in _speedups(found)))


def _speedups(found: Report) -> list[Report]:
    return list(found.get("ttft", {}).get("speedups", []))


def _speedup(found: Report, model: str, tokens: int, arm: str) -> str:
    for one in _speedups(found):
        if (one["model"], one["tokens"]) == (model, tokens):
            return f"{one[f'over {arm}']:.1f} ×"
    return "–"


def _blended(found: Report, model: str) -> str:
    ratios = [
        one["over re-prefill"] / one["over CacheBlend 15%"]
        for one in _speedups(found)
        if one["model"] == model
    ]
    return f"{min(ratios):.1f} to {max(ratios):.1f} ×"


def _even(found: Report, model: str, kind: str) -> str:
    for one in found.get("amortise", {}).get("break_even", []):
        if one["model"] == model:
            return "never" if one[kind] is None else str(one[kind])
    return "–"


def _ttft(found: Report) -> list[str]:
    report = found.get("ttft")
    if report is None:
        return []
    lines = ["## Time to first token of a reused window", "", TTFT]
    for model in _models(found):
        rows = [row for row in report["rows"] if row["model"] == model]
        arms = [arm for arm in ARMS if any(row["arm"] == arm for row in rows)]
        lines += [f"| {model} | {' | '.join(arms)} |", "| ---: |" + " ---: |" * len(arms)]
        for tokens in dict.fromkeys(row["tokens"] for row in rows):
            cells = {row["arm"]: _timed(row) for row in rows if row["tokens"] == tokens}
            lines.append(f"| {tokens} | {' | '.join(cells[arm] for arm in arms)} |")
        lines += ["", *_gains(found, model), *_fidelity(rows)]
    return lines


def _timed(row: Report) -> str:
    mark = " ~" if row["noisy"] else ""
    return f"{_seconds(row['median_s'])} ({row['ratio_to_ceiling']:.1f} ×){mark}"


def _gains(found: Report, model: str) -> list[str]:
    lines = [
        "Kamera over each arm; in brackets what the question alone would reach, the most that there is:",
        "",
        "| tokens | re-prefill | prefix cache, shifted | CacheBlend 15% |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for one in _speedups(found):
        if one["model"] == model:
            cells = [
                f"{one[f'over {arm}']:.1f} × ({one[f'most over {arm}']:.1f})"
                for arm in ("re-prefill", "prefix cache, shifted", "CacheBlend 15%")
            ]
            lines.append(f"| {one['tokens']} | {' | '.join(cells)} |")
    return [*lines, ""]


def _fidelity(rows: list[Report]) -> list[str]:
    known = [row for row in rows if row.get("kl_to_reprefill") is not None]
    if not known:
        return []
    lines = [
        "KL of the question's next token to re-prefill's, in nats, of that one request; `question alone`",
        "reads blind KV, canonicals relocated:",
        "",
    ]
    arms = [arm for arm in ARMS if any(row["arm"] == arm for row in known)]
    lines += [f"| tokens | {' | '.join(arms)} |", "| ---: |" + " ---: |" * len(arms)]
    for tokens in dict.fromkeys(row["tokens"] for row in known):
        cells = {r["arm"]: f"{r['kl_to_reprefill']:.1e}" for r in known if r["tokens"] == tokens}
        lines.append(f"| {tokens} | {' | '.join(cells[arm] for arm in arms)} |")
    return [*lines, ""]


def _break_even(found: Report) -> list[str]:
    report = found.get("amortise")
    if report is None:
        return []
    lines = ["## Break-even", "", BREAK_EVEN]
    lines += ["| model | tokens | free forming | paid forming | a reuse over a prefill |"]
    lines += ["| --- | ---: | ---: | ---: | ---: |"]
    for one in report["break_even"]:
        cells = [
            "never" if one[kind] is None else f"{one[kind]} ({one[f'{kind}_exactly']:.2f})"
            for kind in ("free", "paid")
        ]
        reuse = (one["free_s"][1] - one["free_s"][0]) / one["reprefill_s"][0]
        lines.append(
            f"| {one['model']} | {one['tokens']} | {cells[0]} | {cells[1]} | {reuse:.3f} |"
        )
    return [*lines, "", *_rows(report["rows"])]


def _sharing(found: Report) -> list[str]:
    report = found.get("bytes")
    if report is None:
        return []
    lines = ["## Bytes of one chunk behind N antecedents", "", SHARING]
    counts = [str(count) for count in report["contexts"]]
    heads = " | ".join(f"N = {count}" for count in counts)
    lines += [f"| chunk | rank | factors | patch, share of the KV | {heads} |"]
    lines += ["| --- | ---: | --- | ---: |" + " ---: |" * len(counts)]
    for one in report["geometries"]:
        for kept in one["patches"]:
            cells = " | ".join(f"{kept['sharing'][count]:.1f} ×" for count in counts)
            lines.append(
                f"| {one['geometry']} | {kept['rank']} | {kept['factors']} "
                f"| {kept['share_of_kv']:.1%} | {cells} |"
            )
    return [*lines, ""]


def _plain(name: str, report: Report) -> list[str]:
    """A benchmark without a section of its own: its rows and whatever else it says, as they are."""
    rows = report.get("rows", [])
    lines = _rows(rows) if rows else []
    own = {key: value for key, value in report.items() if key not in COMMON}
    plain = [f"{_words(key)}: {_figure(value)}" for key, value in own.items() if _is_plain(value)]
    lines += [f"{'; '.join(plain)}.", ""] if plain else []
    for key, value in own.items():
        if isinstance(value, dict) and all(_is_plain(one) for one in value.values()):
            named = ", ".join(f"{_words(name)} {_figure(one)}" for name, one in value.items())
            lines += [f"{_words(key).capitalize()}: {named}.", ""]
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            lines += _table(_words(key), value)
    note = [NOTES[name], ""] if name in NOTES else []
    return [f"## `{name}`", "", *note, *lines] if lines else []


def _table(label: str, entries: list[Report]) -> list[str]:
    """Entries of plain figures, a line each."""
    keys = [key for key in entries[0] if all(_is_plain(one.get(key)) for one in entries)]
    lines = [f"{label[:1].upper()}{label[1:]}:", ""]
    lines += [f"| {' | '.join(_words(key) for key in keys)} |", "| ---: " * len(keys) + "|"]
    lines += [f"| {' | '.join(_figure(one.get(key)) for key in keys)} |" for one in entries]
    return [*lines, ""]


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _words(key: str) -> str:
    return key.removesuffix("_s").replace("_", " ") + (" (s)" if key.endswith("_s") else "")


def _figure(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def _rank_bytes(found: Report) -> list[str]:
    report = found.get("rank_bytes")
    if report is None:
        return []
    lines = ["## Patch bytes against η", "", RANK_BYTES.format(default=report["default"])]
    for subject in report["subjects"]:
        lines += [f"{subject['name']}: blind KL {subject['blind_kl']:.3g} nats.", ""]
        lines += ["| profile | bytes of the KV | η | energy |", "| --- | ---: | ---: | ---: |"]
        for curve in sorted(subject["curves"], key=lambda one: one["share_of_kv"]):
            lines.append(
                f"| {curve['profile']} | {curve['share_of_kv']:.2%} | {_eta(curve['eta'])} "
                f"| {curve['energy']:.3f} |"
            )
        lines.append("")
    return lines


def _eta(eta: Report | None) -> str:
    if eta is None:
        return "–"
    return f"{eta['value']:.3f} [{eta['low']:.3f}, {eta['high']:.3f}]"


def _rows(rows: list[Report]) -> list[str]:
    lines = ["| | median | quartiles | × | ceiling |", "| --- | ---: | ---: | ---: | --- |"]
    for row in rows:
        mark = " ~" if row["noisy"] else ""
        lines.append(
            f"| {row['name']} | {_seconds(row['median_s'])}{mark} "
            f"| {_seconds(row['low_s'])} to {_seconds(row['high_s'])} "
            f"| {row['ratio_to_ceiling']:.2f} | {row['ceiling']} |"
        )
    return [*lines, ""]


def _noisy(found: Report) -> dict[str, list[Report]]:
    named = {n: [row for row in r.get("rows", []) if row["noisy"]] for n, r in found.items()}
    return {name: rows for name, rows in named.items() if rows}


def _seconds(value: float) -> str:
    """With its unit, three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


if __name__ == "__main__":
    shutil.copyfile(REPORT, FIGURES)
    PAGE.write_text(page(json.loads(FIGURES.read_text(encoding="utf-8"))), encoding="utf-8")
