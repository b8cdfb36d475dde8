"""How long does it take to look a window up and plan it, with up to a million chunks known?

A plan asks the default store (memory over a folder, nothing of the window in memory) for every chunk: is its
canonical there, is there a patch for exactly these antecedents, for this set, for this approximate window.
What it costs depends on what is found:

    held       a live session holds the whole window already: nothing is looked up but the first
    unknown    nothing is known of any chunk: all of it will be prefilled
    exact      each chunk has a patch formed on the antecedents that it has now
    served     each chunk's patch was formed behind the same approximate window: the last thing that is tried

Each plan is by a library of its own, as for a window that was never seen; `again` is another look by the same
one, which keeps nothing of the first. A store that has never had an orbit patch isn't asked for any; `served,
with an orbit` is the same window when it has had one, for chunks that aren't in it.

The ceiling is as many look-ups in a dict of a million keys as the plan asked questions of the store; `bare`
makes each question's name with one SHA-256 and asks the system for the file, as the store does.

Beside it: opening a folder that knows a million chunks, making its index anew from the files (a sample,
scaled), and the memory that a known chunk takes.

    python benchmarks/bench_plan.py [--short] [--threads N]
"""

from __future__ import annotations

import gc
import hashlib
import resource
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from harness import Timing, aim, finish, measure, read_options, row
from kamera.store import DiskStore, Entry, EntryKey, MemoryStore, Store, TieredStore
from known_store import (
    CAP,
    MODEL,
    KnownStore,
    chunks_of,
    keep_canonicals,
    keep_exact,
    keep_patch,
    keep_served,
    known_store,
    library_of,
    planned,
    residents_of,
)

KNOWN = (10**3, 10**4, 10**5, 10**6)
WINDOWS = (4, 16, 64)
KINDS = ("held", "unknown", "exact", "served", "exact, again")
WITH_ORBIT = "served, with an orbit"
MILLION = 10**6
CALLS = 4


def plans(store: Store, size: int) -> dict[str, Callable[[], Any]]:
    """Each kind's plan, with its window put into the store. Other names for each kind and size."""
    arms: dict[str, Callable[[], Any]] = {}
    for number, kind in enumerate(KINDS):
        chunks = chunks_of(size, first=1000 * size + 10**6 * number)
        library = library_of(store)
        if kind != "unknown":
            keep_canonicals(chunks, library)
        if kind.startswith("exact"):
            keep_exact(chunks, library)
        elif kind == "served":
            keep_served(chunks, library)
        residents = residents_of(chunks) if kind == "held" else {}
        if kind.endswith("again"):
            planned(chunks, library)
            arms[kind] = lambda c=chunks, of=library: planned(c, of)
        else:
            arms[kind] = lambda c=chunks, r=residents: planned(c, library_of(store), r)
    return arms


def measure_short(arms: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Timing]:
    """`measure` of what takes about a millisecond: `CALLS` of an arm in a row, and each one's share."""

    def repeated(arm: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(CALLS):
                arm()

        return run

    timings = measure({name: repeated(arm) for name, arm in arms.items()}, rounds, warmup=2)
    return {name: Timing.of([s / CALLS for s in t.samples_s]) for name, t in timings.items()}


def cpu_s(arm: Callable[[], Any], calls: int = 50) -> float:
    """The median of the processor's time for one call: what a busy machine leaves as it is, or nearly."""
    samples = []
    for _ in range(calls):
        clock = time.thread_time()
        arm()
        samples.append(time.thread_time() - clock)
    return statistics.median(samples)


def keys_asked(store: TieredStore, arm: Callable[[], Any]) -> list[EntryKey]:
    """What a plan asks the store for."""
    keys: list[EntryKey] = []
    contains, contains_each = store.contains, store.contains_each

    def one(key: EntryKey) -> bool:
        keys.append(key)
        return contains(key)

    def each(kind: str, digests: Sequence[str]) -> list[bool]:
        keys.extend(EntryKey(kind, digest) for digest in digests)
        return contains_each(kind, digests)

    with patch.multiple(store, contains=one, contains_each=each):
        arm()
    return keys


def dict_look_up(keys: list[EntryKey], everything: dict[str, int]) -> Callable[[], int]:
    """As many look-ups in a dict."""
    names = [str(key) for key in keys]
    return lambda: sum(name in everything for name in names)


def bare_look_up(keys: list[EntryKey], disk: DiskStore) -> Callable[[], int]:
    """One digest and one question to the system for each key."""
    texts = [str(key).encode() * 4 for key in keys]  # about the bytes that name a patch
    by_kind: dict[str, list[str]] = {}
    for key in keys:
        by_kind.setdefault(key.kind, []).append(key.digest)

    def ask() -> int:
        for text in texts:
            hashlib.sha256(text).hexdigest()
        return sum(sum(disk._directory.has_each(kind, of)) for kind, of in by_kind.items())

    return ask


def plan_rows(known: KnownStore, size: int, rounds: int) -> list[dict[str, Any]]:
    """One row a kind, for windows of `size` chunks."""
    everything = {f"canonical-{i:064x}": i for i in range(known.count)}
    with known.open() as disk, TieredStore(MemoryStore(1 << 20), disk) as store:
        arms = plans(store, size)
        held = store.memory.keys()
        for key in held:
            store.memory.delete(key)
        facts = {"chunks": size, "known": known.count}
        rows = kind_rows(arms, store, everything, rounds, facts)
        with orbit_kept(store):
            arms = {WITH_ORBIT: arms["served"]}
            return rows + kind_rows(arms, store, everything, rounds, facts)


def kind_rows(
    arms: dict[str, Callable[[], Any]],
    store: TieredStore,
    everything: dict[str, int],
    rounds: int,
    facts: dict[str, int],
) -> list[dict[str, Any]]:
    """The arms beside what they ask, as look-ups in a dict and bare."""
    asked = {kind: keys_asked(store, arm) for kind, arm in arms.items()}
    dicts = {f"{k}, dict": dict_look_up(asked[k], everything) for k in arms}
    bare = {f"{k}, bare": bare_look_up(asked[k], store.disk) for k in arms if asked[k]}
    timings = measure_short({**arms, **dicts, **bare}, rounds)
    cpus = {kind: cpu_s(arm) for kind, arm in arms.items()}
    return [
        row(
            f"{facts['chunks']} chunks, {kind}, {facts['known']} known",
            timings[kind],
            ("dict", timings[f"{kind}, dict"]),
            kind=kind,
            questions=len(asked[kind]),
            cpu_s=cpus[kind],
            bare_s=timings[f"{kind}, bare"].median_s if asked[kind] else 0.0,
            **facts,
        )
        for kind in arms
    ]


@contextmanager
def orbit_kept(store: TieredStore) -> Iterator[None]:
    """The store with an orbit patch of other chunks, and as it was."""
    chunks = chunks_of(3, first=10**8)
    record = library_of(store).record(chunks[2], "orbit", [chunk.digest for chunk in chunks[:2]])
    keep_patch(library_of(store), record)
    try:
        yield
    finally:
        key = EntryKey("orbit", record.name)
        assert store.delete(key)
        store.disk._directory.file_of(key).parent.rmdir()


def start_up(known: KnownStore, rounds: int) -> dict[str, Any]:
    """Opening the folder, and what it takes in memory and on disk for a known chunk."""
    before = _resident_bytes()
    stores = [known.open()]
    taken = _resident_bytes() - before
    stores.pop().close()
    timing = measure({"open": lambda: known.open().close()}, rounds)["open"]
    index = sum(path.stat().st_size for path in known.folder.glob("index.sqlite*"))
    return {
        "known": known.count,
        "open_s": timing.median_s,
        "process_bytes_a_chunk": max(taken, 0) / known.count,
        "index_bytes_a_chunk": index / known.count,
    }


def rebuild_s_an_entry(count: int) -> float:
    """Seconds for each entry when the index is made anew from real files."""
    with tempfile.TemporaryDirectory() as folder, DiskStore(folder, CAP) as store:
        for number in range(count):
            tensors = {name: torch.zeros(4, 8, 2, 4) for name in ("k", "v")}
            key = EntryKey("canonical", f"{number:064x}")
            assert store.put(Entry(key, MODEL.digest, None, tensors, {"num_tokens": 8}))
        clock = time.perf_counter()
        assert store.rebuild_index() == count
        return (time.perf_counter() - clock) / count


def memory_bytes_an_entry(count: int = 2000) -> float:
    """What the memory tier takes for an entry beside the elements of its tensors."""
    store = MemoryStore(1 << 30)
    tracemalloc.start()
    for number in range(count):
        tensors = {name: torch.zeros(1) for name in ("k", "v")}
        store.put(Entry(EntryKey("canonical", f"{number:064x}"), MODEL.digest, None, tensors, {}))
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / count


def _resident_bytes() -> int:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Sizes from small to large, one folder that grows."""
    options = read_options(__doc__)
    rounds = 8 if options.short else 20
    rows, opened = [], []
    gc.freeze()  # what was imported needn't be looked through before each call
    with known_store() as known:
        for count in KNOWN[:2] if options.short else KNOWN:
            known.grow(count)
            sizes = WINDOWS if count == KNOWN[0] else WINDOWS[-1:]
            for size in sizes:
                rows += plan_rows(known, size, rounds)
            opened.append(start_up(known, 9))
    largest = opened[-1]
    million = largest["known"] == MILLION
    at_largest = {r["kind"]: r for r in rows if r["known"] == largest["known"]}
    known_text = f"{largest['known']} known"
    aims = [
        aim(
            f"64 chunks, {kind}, {known_text}: ms",
            at_largest[kind]["median_s"] * 1e3,
            at_most=1,
            limit=at_largest[kind]["bare_s"] * 1e3 or None,
            why=f"{at_largest[kind]['questions']} questions of the store, each with a name to digest; "
            f"{at_largest[kind]['cpu_s'] * 1e3:.2f} ms of the processor's own time; the limit is the "
            "questions alone",
        )
        for kind in KINDS
    ]
    aims.append(aim(f"opening a folder, {known_text}: s", largest["open_s"], at_most=2))
    per_entry = rebuild_s_an_entry(200 if options.short else 1000)
    for found in opened:
        print(
            f"{found['known']:>8} known: open {found['open_s'] * 1e3:.2f} ms, in the process "
            f"{found['process_bytes_a_chunk']:.1f} bytes a chunk, index {found['index_bytes_a_chunk']:.0f}"
        )
    report = {
        "rows": rows,
        "aims": aims,
        "start_up": opened,
        "is_million": million,
        "rebuild_s_an_entry": per_entry,
        "rebuild_s_a_million": per_entry * MILLION,
        "memory_tier_bytes_an_entry": memory_bytes_an_entry(),
    }
    print(
        f"index anew from files: {per_entry * 1e6:.0f} us an entry, {per_entry * MILLION:.0f} s a million"
    )
    finish("plan", report, options.out)


if __name__ == "__main__":
    main()
