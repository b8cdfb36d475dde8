"""The disk store's folder as the tests see it: its files, gets that must hit or miss, and other processes."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kamera.store import (
    DiskStore,
    Entry,
    EntryKey,
    Hit,
    Miss,
    MissReason,
)

MODEL = "a" * 64
MakeEntry = Callable[..., Entry]

LARGE = 25_000  # float32 values: 100 kB
CAP = 350_000  # three of them


class Crash(BaseException):
    """Not an Exception: nothing in the store may handle it."""


def hit(store: DiskStore, key: EntryKey) -> Entry:
    found = store.get(key, model=MODEL, tenant="acme")
    assert isinstance(found, Hit), found
    return found.entry


def miss(store: DiskStore, key: EntryKey) -> MissReason:
    found = store.get(key, model=MODEL, tenant="acme")
    assert isinstance(found, Miss)
    return found.reason


def file_of(folder: Path, entry: Entry) -> Path:
    name = f"{entry.key.kind}-{entry.key.digest}.safetensors"
    return folder / "entries" / entry.key.digest[:2] / name


def temporaries(folder: Path) -> list[Path]:
    return list((folder / "incoming").iterdir())


def program(body: str) -> str:
    """A second process's program: a store on the folder and a `make` like the fixture."""
    return (
        "import os, sys, torch\n"
        "from kamera.store import DiskStore, Entry, EntryKey\n"
        f"store = DiskStore(sys.argv[1], {CAP})\n"
        "def make(name, num_floats=4):\n"
        "    tensors = {'k': torch.arange(num_floats, dtype=torch.float32) + name}\n"
        "    key = EntryKey('canonical', f'{name:064x}')\n"
        f"    return Entry(key, '{MODEL}', 'acme', tensors, {{'name': name}})\n"
    ) + body


def run_script(body: str, folder: Path, *, code: int = 0) -> None:
    command = [sys.executable, "-c", program(body), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
