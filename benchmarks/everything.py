"""Every benchmark, one after the other, each in a process of its own; build/bench.json holds all reports.

`bench_vllm` isn't among them: it needs an environment of its own (`make test-vllm`). One that fails is named,
and the others still run.

    python benchmarks/everything.py [--short] [--threads N]
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
REPORTS = FOLDER.parent / "build" / "bench"
MERGED = FOLDER.parent / "build" / "bench.json"
VERSION = 1
ELSEWHERE = ("vllm",)


def names() -> list[str]:
    """What is run, in order."""
    found = [path.stem.removeprefix("bench_") for path in sorted(FOLDER.glob("bench_*.py"))]
    return [name for name in found if name not in ELSEWHERE]


def main() -> int:
    """The exit status: 1 if one of them failed."""
    seconds: dict[str, float] = {}
    failed = []
    for name in names():
        print(f"\n== {name}", flush=True)
        (REPORTS / f"{name}.json").unlink(missing_ok=True)
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, str(FOLDER / f"bench_{name}.py"), *sys.argv[1:]], check=False
        )
        seconds[name] = time.perf_counter() - start
        if done.returncode:
            failed.append(name)
    MERGED.write_text(json.dumps(merged(REPORTS, seconds), indent=1, allow_nan=False) + "\n")
    took = ", ".join(f"{name} {s:.0f} s" for name, s in seconds.items())
    print(f"\n{MERGED.name}: {took}; {sum(seconds.values()) / 60:.1f} minutes")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def merged(folder: Path, seconds: Mapping[str, float]) -> dict[str, Any]:
    """The reports of those that ran and wrote one, with the seconds that each took."""
    benchmarks = {}
    for name, taken in seconds.items():
        path = folder / f"{name}.json"
        if path.is_file():
            benchmarks[name] = {**json.loads(path.read_text(encoding="utf-8")), "seconds": taken}
    return {"version": VERSION, "benchmarks": benchmarks}


if __name__ == "__main__":
    sys.exit(main())
