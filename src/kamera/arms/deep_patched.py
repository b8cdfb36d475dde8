"""Deep patch: only the deepest layers keep their factors; the others are blind.

Paper section 6 and Table 2: the deepest half at about 95 % of full fidelity and half the bytes.
"""

from __future__ import annotations

from kamera.arms.contract import ArmRequest
from kamera.arms.placed_arm import Placed, PlacedArm
from kamera.arms.workbench import Workbench
from kamera.errors import ConfigError
from kamera.patch import Factors, Patch, apply


class DeepPatched(PlacedArm):
    """A share of the layers from the top. All layers at full rank: re-prefill."""

    def __init__(self, bench: Workbench, rank: int | None, share: float = 0.5) -> None:
        if not 0.0 <= share <= 1.0:
            raise ConfigError(f"Invalid share of layers: expected 0 to 1, got {share}")
        super().__init__(bench)
        self.rank, self.share = rank, share
        self.name = f"deep {100 * share:g}% patch {'full' if rank is None else rank}"

    def form(self, request: ArmRequest, index: int) -> None:
        """One conditioned forward over the window, shared by all chunks."""
        self.bench.patch(request.cached, index)

    def place(self, request: ArmRequest, index: int, start: int) -> Placed:
        """Relocate, and patch the deep layers."""
        chunk = request.cached[index]
        canonical = self.bench.canonical(chunk)
        num_deep = round(self.share * canonical.num_layers)
        patch = self.bench.patch(request.cached, index).truncate(self.rank)
        deep = deepest(patch, num_deep)
        kv = apply(canonical, deep, chunk.layout.at(start), self.bench.engine.spec)
        return Placed(kv, patch.num_bytes * num_deep // canonical.num_layers if index else 0)


def deepest(patch: Patch, num_layers: int) -> Patch:
    """The patch with zero factors in all but the last `num_layers` layers."""
    found = {}
    for name, factors in patch.factors.items():
        u = factors.u.clone()
        u[: len(u) - num_layers] = 0.0
        found[name] = Factors(u, factors.vt)
    return Patch(found, patch.antecedent, patch.kind)
