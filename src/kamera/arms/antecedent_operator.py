"""Per-antecedent linear operator: one map for each antecedent, from a chunk's own KV to its deficit.

One of the paper's ruled-out estimators (Appendix B): were the deficit a function of the antecedent alone,
a map learned on other chunks behind the same antecedent would give it for a new one without its forward.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kamera.arms.contract import ArmRequest
from kamera.arms.placed_arm import Placed, PlacedArm, with_deficit
from kamera.arms.regression import fit_ridge
from kamera.arms.workbench import Workbench
from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.errors import ConfigError
from kamera.patch import Deficits


class AntecedentOperator(PlacedArm):
    """Ridge on a pool of chunks. `learn` gives the pool.

    Exact where the pool holds the chunk itself, its tokens are fewer than its features, and `ridge` is 0.
    """

    def __init__(self, bench: Workbench, *, ridge: float = 1e-2, pool: int = 4) -> None:
        super().__init__(bench)
        self.ridge, self.pool_size = ridge, pool
        self.name = "antecedent operator"
        self._pool: list[Chunk] = []
        self.reset()

    def reset(self) -> None:
        """Forget the maps; the pool stays."""
        self._maps: dict[tuple[str, ...], Tensor] = {}

    def learn(self, requests: Sequence[ArmRequest]) -> None:
        """Take the first chunks of a window that aren't its leading one, each once."""
        chunks = {chunk.digest: chunk for r in requests for chunk in r.cached[1:]}
        self._pool = list(chunks.values())[: self.pool_size]

    def form(self, request: ArmRequest, index: int) -> None:
        """The map of the antecedent: a forward for each chunk of the pool behind it."""
        before = request.cached[:index]
        key = tuple(chunk.digest for chunk in before)
        if index == 0 or key in self._maps:
            return
        if not self._pool:
            raise ConfigError("No chunks to learn an operator from: call learn(requests) first")
        inputs = torch.cat([features(self.bench.canonical(c)) for c in self._pool], dim=1)
        deltas = [flat(self.bench.delta([*before, c], index)) for c in self._pool]
        operator = fit_ridge(inputs, torch.cat(deltas, dim=1), self.ridge)
        self._maps[key] = operator.to(self.bench.canonical(self._pool[0]).dtype)

    def place(self, request: ArmRequest, index: int, start: int) -> Placed:
        """Relocate, and add what the map says."""
        chunk = request.cached[index]
        canonical, spec = self.bench.canonical(chunk), self.bench.engine.spec
        if index == 0:
            return Placed(canonical.at(chunk.layout.at(start), spec))
        operator = self._maps[tuple(c.digest for c in request.cached[:index])]
        deltas = split(features(canonical) @ operator.float(), canonical)
        kv = with_deficit(canonical, deltas).at(chunk.layout.at(start), spec, canonical.dtype)
        return Placed(kv, operator.numel() * operator.element_size())


def features(canonical: ChunkKV) -> Tensor:
    """[L, T, F of all channels], float32."""
    return torch.cat([canonical.tensors[c.name].float().flatten(2) for c in canonical.channels], -1)


def flat(deltas: Deficits) -> Tensor:
    """The channels of a deficit side by side, in their order."""
    return torch.cat(list(deltas.values()), dim=-1)


def split(rows: Tensor, like: ChunkKV) -> Deficits:
    """The other way round."""
    sizes = [like.tensors[c.name].flatten(2).shape[2] for c in like.channels]
    names = [channel.name for channel in like.channels]
    return dict(zip(names, torch.split(rows, sizes, dim=-1), strict=True))
