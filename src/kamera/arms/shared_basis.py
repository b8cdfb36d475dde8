"""Shared basis: one set of feature directions for the model, found on other windows; coefficients per chunk.

Paper section 4: "a fixed per-layer basis pooled over (A, B) pairs recovers a held-out deficit as well as
that item's own SVD". The basis is kept once, so that a chunk's bytes are those of its coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kamera.arms.contract import ArmRequest
from kamera.arms.placed_arm import Placed, PlacedArm, with_deficit
from kamera.arms.workbench import Workbench
from kamera.errors import ConfigError
from kamera.patch import fit_gram


class SharedBasis(PlacedArm):
    """Rank m of the pooled deficits. All F directions: re-prefill. `learn` must come first."""

    def __init__(self, bench: Workbench, rank: int | None) -> None:
        super().__init__(bench)
        self.rank = rank
        self.name = f"shared basis {'full' if rank is None else rank}"
        self._basis: dict[str, Tensor] | None = None

    def learn(self, requests: Sequence[ArmRequest]) -> None:
        """Pool the deficits of every chunk behind another, and keep their top directions [L, M, F]."""
        pooled: dict[str, list[Tensor]] = {}
        for request in requests:
            for index in range(1, len(request.cached)):
                for name, delta in self.bench.delta(request.cached, index).items():
                    pooled.setdefault(name, []).append(delta)
        if not pooled:
            raise ConfigError(
                "Nothing to learn a basis from: expected windows of two chunks or more"
            )
        self._basis = {}
        for name, deltas in pooled.items():
            rows = torch.cat(deltas, dim=1)
            # The coordinate axes behind the pooled rows, so faint that they only fill the basis up.
            axes = torch.eye(rows.shape[2], device=rows.device)
            faint = 1e-6 * rows.norm(dim=(1, 2)).clamp_min(1e-6)[:, None, None] * axes
            self._basis[name] = fit_gram(torch.cat([rows, faint], dim=1), self.rank).vt

    def form(self, request: ArmRequest, index: int) -> None:
        """The chunk's deficit, of which the coefficients are taken."""
        self.bench.delta(request.cached, index)

    def place(self, request: ArmRequest, index: int, start: int) -> Placed:
        """Relocate, and add the deficit's projection on the basis."""
        if self._basis is None:
            raise ConfigError("The shared basis isn't learned: call learn(requests) first")
        chunk = request.cached[index]
        canonical = self.bench.canonical(chunk)
        deltas, num_bytes = {}, 0
        for name, delta in self.bench.delta(request.cached, index).items():
            basis = self._basis[name]
            coefficients = (delta @ basis.transpose(1, 2)).to(canonical.dtype)
            deltas[name] = coefficients.to(basis.dtype) @ basis
            num_bytes += coefficients.numel() * coefficients.element_size()
        spec = self.bench.engine.spec
        wide = with_deficit(canonical, deltas)
        kv = wide.at(chunk.layout.at(start), spec, canonical.dtype)
        return Placed(kv, num_bytes if index else 0)
