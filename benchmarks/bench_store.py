"""How close do the store's reads and writes come to plain reads and writes of the same bytes?

One batch is files of one size that are together larger than the processor's caches, as a window of chunks is:
each is read once.

    plain read        open, read all of it: what a cache without checks would do
    read into numpy   the same into memory in huge pages, where the system has them: the stricter yardstick
    disk store        DiskStore.get: name, header, XXH3-128 of every byte, bookkeeping
    with SHA-256      a plain read and the digest of format version 1, one after the other: what that cost

What memory a read gets decides as much as the read. All entries of a batch are held until the last is
read, in memory that the process hasn't had yet (what it has to spare is given back before): new pages for
each, as in a memory tier that fills. `used memory` lets the oldest of as many bytes go before each read, as
in a tier that is full: malloc gives their pages again, but to entries of over 32 MB.

An entry costs some tens of microseconds whatever its size (names, header, checks), so that small ones are far
from the ceiling: `us over plain` says how many. The aim is for those of 4 MB on.

Reads are from the system's page cache: hot. `cold` asks the system to forget the files first
(posix_fadvise); the disk under this machine may still have them. Writes end with fsync, plain ones too.

Then a window of 8 chunks of 256 tokens (Qwen2.5-VL-3B's layers, patches of rank 16) is read from disk and
composed, as it comes and with reading ahead. The ceiling is the longer of the two parts alone.

    python benchmarks/bench_store.py [--short] [--threads N]
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import os
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from disk_window import DiskWindow, forget
from harness import Row, Timing, aim, finish, measure, ratio, read_options, row
from kamera.store import DiskStore, Entry, EntryKey
from known_store import CAP, MODEL

SIZES_MB = (0.1, 0.25, 0.5, 1.0, 4.0, 16.0, 64.0)
BATCH_MB = 64.0
LEAST_MB = 4.0
"""The aim is for entries of this size on: a chunk of 256 tokens is 9.4 MB at Qwen2.5-VL-3B's layers."""
WINDOW_CHUNKS, CHUNK_TOKENS = 8, 256


class Batch:
    """Entries of one size in a store, and the same bytes to read and write plainly."""

    def __init__(self, folder: Path, size_mb: float) -> None:
        self.count = max(2, round(BATCH_MB / size_mb))
        self.folder = folder
        self.store = DiskStore(folder / "store", CAP)
        half = round(size_mb * 1e6 / 4)
        data = torch.randint(-1000, 1000, (2, half), dtype=torch.int16).view(torch.bfloat16)
        self.entries = [
            Entry(
                EntryKey("canonical", f"{i:064x}"),
                MODEL.digest,
                None,
                {"k": data[0], "v": data[1]},
                {"num_tokens": 256, "extent": 256},
            )
            for i in range(self.count)
        ]
        for entry in self.entries:
            assert self.store.put(entry)
        self.paths = [self.store._directory.name_of(entry.key) for entry in self.entries]
        self.file_bytes = os.stat(self.paths[0]).st_size
        self.data = Path(self.paths[0]).read_bytes()
        self.held: deque[Any] = deque()
        self.held_plain: deque[Any] = deque()

    def plain_read(self) -> list[bytes]:
        """Read."""
        found = []
        for path in self.paths:
            with open(path, "rb", buffering=0) as file:
                found.append(file.read())
        return found

    def read_into(self) -> list[Any]:
        """Read into memory that numpy gives."""
        found = []
        for path in self.paths:
            memory = np.empty(self.file_bytes, dtype=np.uint8)
            with open(path, "rb", buffering=0) as file:
                file.readinto(memory.data)
            found.append(memory)
        return found

    def read_with_sha256(self) -> list[bytes]:
        """Read, then digest."""
        found = self.plain_read()
        for data in found:
            hashlib.sha256(data).hexdigest()
        return found

    def get(self) -> list[Any]:
        """The store's."""
        found = [self.store.get(e.key, model=MODEL.digest, tenant=None) for e in self.entries]
        assert all(found)
        return found

    def plain_in_used_memory(self) -> None:
        """Read; the oldest makes room for each."""
        for path in self.paths:
            self._make_room(self.held_plain)
            with open(path, "rb", buffering=0) as file:
                self.held_plain.append(file.read())

    def get_in_used_memory(self) -> None:
        """The store's; the oldest makes room for each."""
        for entry in self.entries:
            self._make_room(self.held)
            self.held.append(self.store.get(entry.key, model=MODEL.digest, tenant=None))
            assert self.held[-1]

    def _make_room(self, held: deque[Any]) -> None:
        if len(held) == self.count:
            held.popleft()

    def forget(self) -> None:
        """Out of the page cache."""
        for path in self.paths:
            forget(path)

    def plain_write(self) -> None:
        """Write one file and sync it."""
        descriptor = os.open(self.folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            left = memoryview(self.data)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def put(self) -> None:
        """The store's: the same bytes, published and listed."""
        assert self.store.put(self.entries[0])


def give_back() -> None:
    """Memory that the process holds and doesn't use goes back to the system, where glibc can do that."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def size_rows(size_mb: float, rounds: int) -> list[Row]:
    """Reads, hot and cold, and writes of entries of one size."""
    with tempfile.TemporaryDirectory(prefix="kamera-bench-") as folder:
        batch = Batch(Path(folder), size_mb)
        hot = {
            "plain read": batch.plain_read,
            "read into numpy": batch.read_into,
            "disk store": batch.get,
            "with SHA-256": batch.read_with_sha256,
        }
        used = {
            "plain read, used memory": batch.plain_in_used_memory,
            "disk store, used memory": batch.get_in_used_memory,
        }
        cold = {"cold plain read": batch.plain_read, "cold disk store": batch.get}
        written = {"plain write": batch.plain_write, "put": batch.put}
        timings = measure(hot, rounds, prepare=dict.fromkeys(hot, give_back))
        timings |= measure(used, rounds, warmup=2)
        batch.held.clear()
        batch.held_plain.clear()
        timings |= measure(cold, max(3, rounds // 2), prepare=dict.fromkeys(cold, batch.forget))
        timings |= measure(written, rounds)
        batch.store.close()
        return [_row(name, timings, size_mb, batch) for name in timings]


def _row(name: str, timings: dict[str, Timing], size_mb: float, batch: Batch) -> Row:
    is_write = name in ("plain write", "put")
    yardstick = "plain write" if is_write else "plain read"
    yardstick = f"cold {yardstick}" if name.startswith("cold") else yardstick
    yardstick += ", used memory" if name.endswith("used memory") else ""
    num_files = 1 if is_write else batch.count
    num_bytes = batch.file_bytes * num_files
    return row(
        f"{size_mb:g} MB, {name}",
        timings[name],
        (yardstick, timings[yardstick]),
        kind=name,
        entry_mb=size_mb,
        gb_per_s=num_bytes / timings[name].median_s / 1e9,
        speed_of_plain=ratio(timings[yardstick], timings[name]),
        us_over_plain=(timings[name].median_s - timings[yardstick].median_s) / num_files * 1e6,
        speed_of_numpy=ratio(timings["read into numpy"], timings[name])
        if name in ("plain read", "disk store")
        else None,
    )


def window_rows(rounds: int) -> list[Row]:
    """A window from disk into its place: read, composed, and both, with and without reading ahead."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="kamera-bench-") as folder:
        window = DiskWindow.make(Path(folder) / "store", WINDOW_CHUNKS, CHUNK_TOKENS)
        held = window.read()
        arms: dict[str, Callable[[], Any]] = {
            "read": window.read,
            "compose": lambda: window.compose(held),
            "read, then compose": window.read_and_compose,
            "compose while reading ahead": window.compose_while_reading,
        }
        for state in ("hot", "cold"):
            prepare = dict.fromkeys(arms, window.forget) if state == "cold" else {}
            timings = measure(arms, rounds, prepare=prepare)
            longer = max(("read", "compose"), key=lambda name: timings[name].median_s)
            rows += [
                row(
                    f"window, {state}, {name}",
                    timings[name],
                    (longer, timings[longer]),
                    kind=name,
                    state=state,
                    gb_per_s=window.num_bytes / timings[name].median_s / 1e9,
                    over_one_after_the_other=ratio(timings[name], timings["read, then compose"]),
                )
                for name in arms
            ]
        window.library.store.close()
    return rows


def main() -> None:
    """All sizes, then the window."""
    options = read_options(__doc__)
    gc.freeze()
    sizes = SIZES_MB[2:4] if options.short else SIZES_MB
    rounds = 5 if options.short else 9
    rows = [found for size in sizes for found in size_rows(size, rounds)]
    aims = [
        aim(
            f"{r['name']}: share of a plain read's speed",
            r["speed_of_plain"],
            at_least=0.8,
            why="a fixed cost an entry (header, checks, names), and one pass of the digest over bytes that a "
            "plain read only copies; a second reader gains where a second core is free",
        )
        for r in rows
        if r["kind"] in ("disk store", "disk store, used memory") and r["entry_mb"] >= LEAST_MB
    ]
    rows += window_rows(rounds)
    finish("store", {"rows": rows, "aims": aims}, options.out)


if __name__ == "__main__":
    main()
