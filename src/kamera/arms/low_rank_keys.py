"""Low-rank keys (ShadowKV-style): the canonical's own keys at rank m, values as they are, no deficit.

Sun et al., "ShadowKV: KV Cache in Shadows for High-Throughput Long-Context LLM Inference" (ICML 2025):
un-rotated keys are low-rank. Paper Table 6: this "rebuilds absolute K, which the canonical already has".
For MLA the latent.
"""

from __future__ import annotations

from kamera.arms.contract import ArmRequest
from kamera.arms.placed_arm import Placed, PlacedArm
from kamera.arms.workbench import Workbench
from kamera.channels import ChunkKV
from kamera.patch import Factors, fit_gram


class LowRankKeys(PlacedArm):
    """Rank m of K. Full rank: **blind**, not re-prefill; it never sees an antecedent."""

    def __init__(self, bench: Workbench, rank: int | None) -> None:
        super().__init__(bench)
        self.rank = rank
        self.name = f"low-rank K {'full' if rank is None else rank}"

    def place(self, request: ArmRequest, index: int, start: int) -> Placed:
        """Relocate with rebuilt keys."""
        chunk = request.cached[index]
        canonical = self.bench.canonical(chunk)
        name = "k" if "k" in canonical.tensors else "c_kv"
        keys = canonical.tensors[name]
        factors: Factors = fit_gram(keys.float().flatten(2), self.rank).to(keys.dtype)
        rebuilt = factors.product().view(keys.shape).to(keys.dtype)
        kv = ChunkKV({**canonical.tensors, name: rebuilt if index else keys})
        placed = kv.at(chunk.layout.at(start), self.bench.engine.spec)
        return Placed(placed, factors.num_bytes if index else 0)
