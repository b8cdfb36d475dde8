"""Shallow seed: the shallow layers are recomputed, and the deep layers' deficit is predicted from theirs.

One of the paper's ruled-out estimators (Appendix B): were the deep deficit a function of the shallow one,
a partial forward over a few layers would do, and the deep patch would follow from it by a map learned
once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kamera.arms.antecedent_operator import flat, split
from kamera.arms.contract import ArmRequest, Served
from kamera.arms.placed_arm import Placed, PlacedArm, with_deficit
from kamera.arms.regression import fit_ridge
from kamera.arms.workbench import Workbench
from kamera.errors import ConfigError


class ShallowSeed(PlacedArm):
    """Δ of the first `num_layers` layers is exact, the others' a ridge on it. All layers: re-prefill.

    The exact part is read off the full forward, which is what a forward over these layers alone gives.
    """

    def __init__(self, bench: Workbench, num_layers: int, *, ridge: float = 1e-2) -> None:
        if num_layers < 1:
            raise ConfigError(
                f"Invalid num_layers of a seed: expected at least 1, got {num_layers}"
            )
        super().__init__(bench)
        self.num_layers, self.ridge = num_layers, ridge
        self.name = f"shallow seed {num_layers}"
        self._map: Tensor | None = None

    def learn(self, requests: Sequence[ArmRequest]) -> None:
        """Learn the map, every deep layer from all shallow ones together."""
        deltas = [
            flat(self.bench.delta(request.cached, index))
            for request in requests
            for index in range(1, len(request.cached))
        ]
        if not deltas:
            raise ConfigError("Nothing to learn from: expected windows of two chunks or more")
        pooled = torch.cat(deltas, dim=1)
        deep = pooled[self.num_layers :]
        seed = self._seed(pooled).expand(len(deep), -1, -1)
        self._map = fit_ridge(seed, deep, self.ridge) if len(deep) else None

    def serve(self, request: ArmRequest) -> Served:
        """As every placed arm, but the shallow layers were run on the path."""
        served = super().serve(request)
        num_tokens = sum(chunk.num_tokens for chunk in request.cached[1:])
        num_layers = min(self.num_layers, self.bench.canonical(request.cached[0]).num_layers)
        return Served(
            served.logits,
            num_prefilled=num_tokens if num_layers else 0,
            num_vision_runs=0,
            ttft_s=served.ttft_s,
            num_bytes=served.num_bytes,
            num_token_layers=num_tokens * num_layers,
        )

    def place(self, request: ArmRequest, index: int, start: int) -> Placed:
        """Relocate, and add the seed and what follows from it."""
        chunk = request.cached[index]
        canonical, spec = self.bench.canonical(chunk), self.bench.engine.spec
        if index == 0:
            return Placed(canonical.at(chunk.layout.at(start), spec))
        exact = flat(self.bench.delta(request.cached, index))
        shallow, deep = exact[: self.num_layers], exact[self.num_layers :]
        if len(deep):
            if self._map is None:
                raise ConfigError("The shallow seed has no map: call learn(requests) first")
            deep = self._seed(exact) @ self._map
        deltas = split(torch.cat([shallow, deep]), canonical)
        kv = with_deficit(canonical, deltas).at(chunk.layout.at(start), spec, canonical.dtype)
        return Placed(kv, shallow.numel() * canonical.dtype.itemsize)

    def _seed(self, deltas: Tensor) -> Tensor:
        """[1, T, num_layers · F]: all shallow layers of a token side by side."""
        return deltas[: self.num_layers].transpose(0, 1).flatten(1)[None]
