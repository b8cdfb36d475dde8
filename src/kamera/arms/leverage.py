"""Leverage-Nyström subset: the tokens of highest statistical leverage in the chunk's own KV are recomputed.

Paper Table 4 ("token subset, leverage-Nyström 64"). Leverage scores are those by which a Nyström
approximation samples its columns (Drineas and Mahoney, JMLR 2005): the squared row norms of the top left
singular vectors. The subset is recomputed; the other tokens stay blind, nothing is interpolated between.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.arms.laid_out import LaidOut
from kamera.arms.token_arm import Choice, TokenArm, in_all_layers
from kamera.channels import ChunkKV

RANK = 32
"""Directions over which leverage is taken; at most half as many as tokens: over all, every token's is 1."""
ROUNDING = 1e-6
"""Directions fainter than this, against the strongest of their layer, are float32 rounding."""


class Leverage(TokenArm):
    """The budget's tokens of each chunk. All tokens: re-prefill."""

    label = "leverage"

    def choose(self, window: LaidOut) -> Choice:
        """The highest of each chunk: leverage says nothing across chunks."""
        rows = torch.zeros(window.num_tokens, dtype=torch.bool)
        for chunk, (start, end) in list(zip(window.chunks, window.spans, strict=True))[1:]:
            scores = leverage(self.bench.canonical(chunk))
            count = self.budget.tokens(end - start, window.features)
            rows[start + scores.argsort(descending=True, stable=True)[:count]] = True
        return in_all_layers(window, rows)


def leverage(canonical: ChunkKV) -> Float[Tensor, " T"]:
    """Each token's leverage over the top directions, the sum over layers and channels."""
    rank = min(RANK, max(1, canonical.num_tokens // 2))
    total = torch.zeros(canonical.num_tokens, dtype=torch.float64)
    for tensor in canonical.tensors.values():
        left, sigma, _ = torch.linalg.svd(tensor.double().flatten(2), full_matrices=False)
        is_real = sigma > ROUNDING * sigma[:, :1]
        shares = (left.square() * is_real[:, None])[..., :rank]
        total += shares.sum((0, 2)).cpu()
    return total.float()
