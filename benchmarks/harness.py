"""What every benchmark shares: interleaved timing, the machine's facts, aims, and JSON as the last line.

A script is `python benchmarks/bench_NAME.py [--short] [--threads N] [--out FILE]`. Its docstring says the
question, what is compared and the ceiling: what nothing on this machine could beat. Its body:

    options = read_options(__doc__)
    timings = measure({"memcpy": copy, "rank 8": apply_8}, repeats=20)
    rows = [row(name, timing, ("memcpy", timings["memcpy"])) for name, timing in timings.items()]
    aims = [aim("rank 8 over memcpy", ratio(timings["rank 8"], timings["memcpy"]), at_most=1.5)]
    finish("apply", {"rows": rows, "aims": aims}, options.out)

The arms are run in turns, in an order that is drawn anew for each round, so that a slow minute of the machine
falls on all of them; `ratio` compares within a round for the same reason. A figure whose quartiles lie
further apart than `NOISY` of its median says so.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
NOISY = 0.2
"""The share of the median that the quartiles may lie apart."""
SEED = 0

Row = dict[str, Any]
_LOAD = os.getloadavg()[0]
"""Before this process computed anything."""


@dataclass(frozen=True)
class Timing:
    """Wall-clock seconds of one arm: the median, the quartiles, and every round's sample in order."""

    median_s: float
    low_s: float
    high_s: float
    samples_s: tuple[float, ...]

    @classmethod
    def of(cls, samples_s: Sequence[float]) -> Timing:
        """Of the rounds' samples. Quartiles as numpy interpolates them."""
        low, median, high = (float(q) for q in np.quantile(samples_s, (0.25, 0.5, 0.75)))
        return cls(median, low, high, tuple(samples_s))

    @property
    def noisy(self) -> bool:
        """Whether the quartiles lie further apart than `NOISY` of the median."""
        return self.high_s - self.low_s > NOISY * self.median_s


def measure(
    arms: Mapping[str, Callable[[], Any]],
    repeats: int,
    warmup: int = 1,
    *,
    prepare: Mapping[str, Callable[[], Any]] | None = None,
) -> dict[str, Timing]:
    """Time every arm once a round, in a drawn order; `warmup` rounds come first and aren't counted.

    `prepare` names what an arm needs done before each of its calls, outside its time. What a call gives is
    dropped after the clock has stopped. The collector is off while the clock runs.

    Raises:
        ValueError: no arm, no round, or `prepare` for an arm that isn't there.
    """
    before = dict(prepare or {})
    if not arms or repeats < 1 or not set(before) <= set(arms):
        raise ValueError(
            f"Can't measure {sorted(arms)} {repeats} times, prepared {sorted(before)}: expected one or "
            "more arms and rounds, and to prepare only arms that are measured"
        )
    rng = random.Random(SEED)
    samples: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(warmup + repeats):
        for name in rng.sample(list(arms), len(arms)):
            if name in before:
                before[name]()
            elapsed = _clock(arms[name])
            if number >= warmup:
                samples[name].append(elapsed)
    return {name: Timing.of(found) for name, found in samples.items()}


def _clock(call: Callable[[], Any]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        given = call()
        elapsed = time.perf_counter() - start
    finally:
        gc.enable()
    del given
    return elapsed


def ratio(timing: Timing, other: Timing) -> float:
    """How many times as long as `other`: the median over the rounds of the two samples of one round."""
    return statistics.median(a / b for a, b in zip(timing.samples_s, other.samples_s, strict=True))


def row(name: str, timing: Timing, ceiling: tuple[str, Timing | float], **facts: Any) -> Row:
    """One row of a report.

    Args:
        name: the arm's.
        timing: its.
        ceiling: the name of what can't be beaten, and its timing in the same rounds or its seconds.
        facts: more columns: tokens, rank, bytes …
    """
    label, best = ceiling
    over = ratio(timing, best) if isinstance(best, Timing) else timing.median_s / best
    return {
        "name": name,
        **facts,
        "median_s": timing.median_s,
        "low_s": timing.low_s,
        "high_s": timing.high_s,
        "noisy": timing.noisy,
        "ceiling": label,
        "ceiling_s": best.median_s if isinstance(best, Timing) else best,
        "ratio_to_ceiling": over,
    }


def aim(
    text: str,
    value: float,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    limit: float | None = None,
    why: str = "",
) -> Row:
    """An aim and whether it is reached; docs/performance.md shows those that aren't first.

    Args:
        text, value: what was measured, and how much of it.
        at_most, at_least: the aim; one of them.
        limit: what this machine allows at best, in the same unit, where that is known.
        why: what stands between the value and the aim, shown where it is missed.

    Raises:
        ValueError: not exactly one bound.
    """
    if (at_most is None) == (at_least is None):
        raise ValueError(f"The aim {text!r} needs one bound: at_most or at_least")
    found: Row = {"aim": text, "value": value}
    if at_most is not None:
        found |= {"at_most": at_most, "holds": value <= at_most}
    if at_least is not None:
        found |= {"at_least": at_least, "holds": value >= at_least}
    if limit is not None:
        found["limit"] = limit
    if why:
        found["why"] = why
    return found


def read_options(doc: str | None, *more: str) -> argparse.Namespace:
    """The command line; sets torch's threads. `more` names flags of the script's own."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="few rounds at few sizes")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="default: build/bench/NAME.json")
    for flag in more:
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return options


def environment() -> dict[str, Any]:
    """The machine, the versions, and the commit; no name or path of the machine."""
    from kamera.lab.runs.commit import source_commit  # brings Transformers: not before it is needed

    return {
        "cpu": _cpu_name(),
        "num_cores": len(os.sched_getaffinity(0)),
        "num_threads": torch.get_num_threads(),
        "load_at_start": _LOAD,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "kamera": metadata.version("kamera-kv"),
        "commit": source_commit().json(),
        "noisy_above": NOISY,
    }


def _cpu_name() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def finish(name: str, report: Mapping[str, Any], out: Path | None = None) -> dict[str, Any]:
    """Show the rows and aims, write build/bench/NAME.json, and print the same JSON as the last line."""
    whole = {"benchmark": name, **report, "environment": environment()}
    show(whole)
    path = out or ROOT / "build" / "bench" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print(json.dumps(whole, allow_nan=False), flush=True)
    return whole


def show(report: Mapping[str, Any]) -> None:
    """A line for each row and aim; the noisy ones are marked."""
    rows, aims = report.get("rows", []), report.get("aims", [])
    width = max((len(r["name"]) for r in rows), default=0)
    for r in rows:
        spread = f"[{r['low_s'] * 1e3:.3f}, {r['high_s'] * 1e3:.3f}]"
        over = f"{r['ratio_to_ceiling']:7.2f} x {r['ceiling']}"
        mark = "  noisy" if r["noisy"] else ""
        print(f"{r['name']:<{width}}  {r['median_s'] * 1e3:10.3f} ms {spread}  {over}{mark}")
    num_noisy = sum(r["noisy"] for r in rows)
    if num_noisy:
        print(
            f"{num_noisy} of {len(rows)} rows are noisy: quartiles > {NOISY:.0%} of the median apart"
        )
    for a in aims:
        bound = f"at most {a['at_most']:g}" if "at_most" in a else f"at least {a['at_least']:g}"
        print(f"{'reached' if a['holds'] else 'MISSED '}  {a['aim']}: {a['value']:.3g} ({bound})")
