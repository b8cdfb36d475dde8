"""How many bytes does it take to keep one chunk behind N different antecedents?

full copies    the chunk's conditioned KV, once for each antecedent: what a prefix cache keeps
Kamera         one canonical, shared, and a patch for each antecedent

The sizes are those of files that a store on disk wrote: one canonical, one conditioned copy, one patch of
each rank, with factors in bfloat16 as the canonical's own numbers, and in int8; a store that really holds one
canonical and 16 patches is weighed against their sum. The ceiling is N: patches that cost nothing.

The paper's 11.9 x at N = 16 and 27 x at N = 64 are what a patch of 2.15 % of the KV gives, by the same
arithmetic: N / (1 + N p).

    python benchmarks/bench_bytes.py [--short] [--threads N]
"""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harness import finish, read_options
from kamera.patch import Factors, Patch, encode_patch
from kamera.patch.quantise import quantised
from kamera.store import DiskStore, Entry, EntryKey

CONTEXTS = (1, 4, 16, 64)
RANKS = (8, 16, 64)
WEIGHED = 16
FORMATS = ("bf16", "int8")


@dataclass(frozen=True)
class Geometry:
    """One chunk: `features` are F of each channel."""

    name: str
    num_layers: int
    num_tokens: int
    features: dict[str, int]

    def kv(self) -> dict[str, Tensor]:
        """[L, T, 1, F] in bfloat16: its bytes, not its numbers, count here."""
        shape = (self.num_layers, self.num_tokens, 1)
        return {n: torch.zeros(*shape, f, dtype=torch.bfloat16) for n, f in self.features.items()}

    def patch(self, rank: int, numbers: str) -> Patch:
        """Of one rank in all layers and channels, clipped to their full rank."""
        patch = Patch({n: self._factors(rank, f) for n, f in self.features.items()}, "antecedent")
        return patch if numbers == "bf16" else quantised(patch, torch.int8)

    def share(self, rank: int) -> float:
        """m (T + F) numbers over T F, summed over channels."""
        kept = sum(self._rank(rank, f) * (self.num_tokens + f) for f in self.features.values())
        return kept / (self.num_tokens * sum(self.features.values()))

    def _rank(self, rank: int, num_features: int) -> int:
        return min(rank, num_features, self.num_tokens)

    def _factors(self, rank: int, num_features: int) -> Factors:
        rank = self._rank(rank, num_features)
        return Factors(
            torch.ones(self.num_layers, self.num_tokens, rank, dtype=torch.bfloat16),
            torch.ones(self.num_layers, rank, num_features, dtype=torch.bfloat16),
        )


SHORT = Geometry("SmolLM2-135M, T = 256", 30, 256, {"k": 192, "v": 192})
GEOMETRIES = (
    SHORT,
    Geometry("Qwen2.5-VL-3B, T = 1024", 36, 1024, {"k": 256, "v": 256}),
    Geometry("Qwen2.5-VL-7B, T = 1024", 28, 1024, {"k": 512, "v": 512}),
    Geometry("Kimi-VL-A3B (MLA), T = 1024", 27, 1024, {"c_kv": 512, "k_pe": 64}),
)


def main() -> None:
    """Every geometry; the short run the smallest."""
    options = read_options(__doc__)
    found = [weigh(geometry) for geometry in ([SHORT] if options.short else GEOMETRIES)]
    for one in found:
        for kept in one["patches"]:
            sharing = ", ".join(f"{x:.1f} x at N = {n}" for n, x in kept["sharing"].items())
            print(
                f"{one['geometry']}, rank {kept['rank']} {kept['factors']}: {sharing}", flush=True
            )
    finish("bytes", {"contexts": CONTEXTS, "geometries": found}, options.out)


def weigh(geometry: Geometry) -> dict[str, Any]:
    """Bytes of the files, and how many times as many full copies take."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        canonical = stored(place / "canonical", {"canonical": [geometry.kv()]})
        copy = stored(place / "copy", {"conditioned": [geometry.kv()]})
        patches = []
        for rank, numbers in itertools.product(RANKS, FORMATS):
            size = stored(place / f"{rank}-{numbers}", {"patch": [geometry.patch(rank, numbers)]})
            patches.append(
                {
                    "rank": rank,
                    "factors": numbers,
                    "bytes": size,
                    "share_of_kv": size / copy,
                    "share_in_numbers": geometry.share(rank),
                    "sharing": {str(n): n * copy / (canonical + n * size) for n in CONTEXTS},
                }
            )
        held = {"canonical": [geometry.kv()], "patch": [geometry.patch(RANKS[0], "bf16")] * WEIGHED}
        together = stored(place / "together", held)
    return {
        "geometry": geometry.name,
        "canonical_bytes": canonical,
        "copy_bytes": copy,
        "weighed": {
            "contexts": WEIGHED,
            "bytes": together,
            "sum_of_parts": canonical + WEIGHED * patches[0]["bytes"],
        },
        "patches": patches,
    }


def stored(folder: Path, entries: dict[str, list[Any]]) -> int:
    """Bytes of the entries' files in a store that holds these alone, its index left out."""
    with DiskStore(folder, 1 << 40) as store:
        for kind, values in entries.items():
            for number, value in enumerate(values):
                tensors, attributes = (
                    encode_patch(value) if isinstance(value, Patch) else (value, {})
                )
                name = hashlib.sha256(f"{kind} {number}".encode()).hexdigest()
                model = hashlib.sha256(b"model").hexdigest()
                put = store.put(Entry(EntryKey(kind, name), model, None, tensors, attributes))
                if not put.stored:
                    raise RuntimeError(f"The store didn't take {kind} {number}: {put}")
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files if "index" not in path.name)


if __name__ == "__main__":
    main()
