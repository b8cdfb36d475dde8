"""How do the costs grow: with a chunk's tokens, with the window, with what the store knows?

    tokens   one chunk read from disk, patched (rank 16), relocated and written in place, 256 to 16,384 tokens
             (2 of Qwen2.5-VL-3B's 36 layers, so that the longest fits)
    window   a plan of 4 to 64 chunks, each with a patch on its own antecedents
    known    a plan of 64 chunks with 10^3 to 10^6 known; and opening that store

Each is given as the slope of log time over log size, fitted by least squares: 1 is linear, 0 is no growth.
The ceiling of `tokens` is a memcpy of the chunk's bytes; of the others a look-up in a dict for each chunk.
Opening reads an index of up to 16 MiB whole, to check it, and nothing of a larger one: no straight line.

    python benchmarks/bench_scale.py [--short] [--threads N]
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from disk_window import DiskWindow
from harness import Row, Timing, aim, finish, measure, read_options, row
from kamera.store import Store
from known_store import (
    chunks_of,
    keep_canonicals,
    keep_exact,
    known_store,
    library_of,
    planned,
)

TOKENS = (256, 512, 1024, 2048, 4096, 8192, 16_384)
TOKEN_LAYERS = 2
WINDOWS = (4, 8, 16, 32, 64)
KNOWN = (10**3, 10**4, 10**5, 10**6)
CALLS = 4
"""Plans in a row: one alone is shorter than what the clock and the collector disturb."""


def slope(sizes: Sequence[int], timings: Sequence[Timing]) -> float:
    """Of log time over log size."""
    times = np.log([timing.median_s for timing in timings])
    return float(np.polyfit(np.log(sizes), times, 1)[0])


def token_rows(sizes: Sequence[int], rounds: int) -> tuple[list[Row], float]:
    """One chunk of each size, from disk into its place."""
    with tempfile.TemporaryDirectory(prefix="kamera-bench-") as folder:
        windows = {
            size: DiskWindow.make(Path(folder) / str(size), 2, size, num_layers=TOKEN_LAYERS)
            for size in sizes
        }
        arms: dict[str, Callable[[], Any]] = {}
        for size, window in windows.items():
            arms[f"{size}"] = window.read_and_compose_last
            arms[f"{size}, memcpy"] = _memcpy(window)
        timings = measure(arms, rounds)
        for window in windows.values():
            window.library.store.close()
    rows = [
        row(
            f"{size} tokens, read and composed",
            timings[f"{size}"],
            ("memcpy", timings[f"{size}, memcpy"]),
            axis="tokens",
            size=size,
        )
        for size in sizes
    ]
    return rows, slope(sizes, [timings[f"{size}"] for size in sizes])


def _memcpy(window: DiskWindow) -> Callable[[], None]:
    """A copy of one chunk's bytes."""
    source = torch.ones(window.num_bytes // len(window.chunks), dtype=torch.uint8)
    place = torch.zeros_like(source)
    return lambda: place.copy_(source)  # type: ignore[return-value]


def window_rows(store: Store, sizes: Sequence[int], rounds: int) -> tuple[list[Row], float]:
    """A plan for each size of window."""
    timings = _plans(store, sizes, rounds)
    rows = [
        row(
            f"window of {size}, planned",
            timings[f"{size}"],
            _dict(timings, size),
            axis="window",
            size=size,
        )
        for size in sizes
    ]
    return rows, slope(sizes, [timings[f"{size}"] for size in sizes])


def known_rows(
    sizes: Sequence[int], windows: Sequence[int], rounds: int
) -> tuple[list[Row], dict[str, float]]:
    """The window's rows at the smallest store; then the largest window and opening, for each store."""
    rows: list[Row] = []
    plans, opens = [], []
    largest = windows[-1]
    slopes: dict[str, float] = {}
    with known_store() as known:
        for count in sizes:
            known.grow(count)
            with known.open() as store:
                if count == sizes[0]:
                    found, slopes["plan over window"] = window_rows(store, windows, rounds)
                    rows += found
                timings = _plans(store, [largest], rounds)
            timings |= measure({"open": lambda: known.open().close()}, rounds)
            plans.append(timings[f"{largest}"])
            opens.append(timings["open"])
            facts = {"axis": "known", "size": count}
            ceiling = _dict(timings, largest)
            rows.append(
                row(f"{count} known, {largest} chunks planned", plans[-1], ceiling, **facts)
            )
            rows.append(row(f"{count} known, opened", opens[-1], ceiling, **facts))
    slopes["plan over known"] = slope(sizes, plans)
    slopes["open over known"] = slope(sizes, opens)
    return rows, slopes


def _plans(store: Store, sizes: Sequence[int], rounds: int) -> dict[str, Timing]:
    """Plans by a library that has named nothing yet, and as many look-ups in a dict."""
    arms: dict[str, Callable[[], Any]] = {}
    for size in sizes:
        chunks = chunks_of(size, first=10_000 * size)
        keep_canonicals(chunks, library_of(store))
        keep_exact(chunks, library_of(store))
        names = {chunk.digest: chunk for chunk in chunks}
        arms[f"{size}"] = lambda c=chunks: [planned(c, library_of(store)) for _ in range(CALLS)]
        arms[f"{size}, dict"] = lambda c=chunks, n=names: [
            chunk.digest in n for _ in range(CALLS) for chunk in c
        ]
    timings = measure(arms, rounds, warmup=2)
    return {name: Timing.of([s / CALLS for s in t.samples_s]) for name, t in timings.items()}


def _dict(timings: dict[str, Timing], size: int) -> tuple[str, Timing]:
    return "dict", timings[f"{size}, dict"]


def main() -> None:
    """The three axes."""
    options = read_options(__doc__)
    gc.freeze()
    rounds = 5 if options.short else 11
    rows, by_tokens = token_rows(TOKENS[:3] if options.short else TOKENS, rounds)
    found, slopes = known_rows(KNOWN[:2] if options.short else KNOWN, WINDOWS, rounds)
    rows += found
    slopes["read and compose over tokens"] = by_tokens
    for name, value in slopes.items():
        print(f"slope of {name}: {value:.2f}")
    aims = [
        aim("slope of read and compose over tokens", by_tokens, at_most=1.1),
        aim("slope of plan over window", slopes["plan over window"], at_most=1.1),
        aim("slope of plan over known", slopes["plan over known"], at_most=0.1),
        aim(f"opening a folder, {rows[-1]['size']} known: s", rows[-1]["median_s"], at_most=2),
    ]
    finish("scale", {"rows": rows, "slopes": slopes, "aims": aims}, options.out)


if __name__ == "__main__":
    main()
