"""Deep patch: only the deepest layers keep their factors; the others are blind.

Paper section 6 and Table 2: the deepest half at about 95 % of full fidelity and half the bytes.
"""

from __future__ import annotations

from kamera.arms.contract import ArmRequest
from kamera.arms.placed_arm import Placed, PlacedArm
from kamera.arms.workbench import Workbench
from kamera.errors import ConfigError
from kamera.patch import Patch, apply


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
        return Placed(kv, deep.num_bytes if index else 0)


def deepest(patch: Patch, num_layers: int) -> Patch:
    """The patch with the last `num_layers` layers' directions alone; the others are of rank 0."""
    ranks = {
        name: [0] * (factors.num_layers - num_layers) + [factors.rank] * num_layers
        for name, factors in patch.factors.items()
    }
    return patch.with_ranks(ranks)
