"""Do a few heads hold the deficit? Δ's energy over (layer, KV head) cells (paper section C.3, Figure 6c)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.lab.probes.case import Case
from kamera.lab.probes.token_diffuseness import share_for


@dataclass(frozen=True)
class HeadSparsity:
    """Mean over the cases. A cell's energy is ‖Δ‖² of its channels together.

    Attributes:
        share_for_90: the smallest share of the cells that holds 90 %. Spread evenly, it would be 0.9.
        top_quarter: energy in the top 25 % of the cells. Spread evenly, it would be 0.25.
        num_cells: layers times KV heads; for MLA, whose latent has no heads, the layers.
        n: cases.
    """

    share_for_90: float
    top_quarter: float
    num_cells: int
    n: int


def probe_head_sparsity(cases: Iterable[Case]) -> HeadSparsity:
    """Rank the cells of each case by their own energy."""
    needed, quarter, num_cells = [], [], 0
    for case in cases:
        cells = cell_energy(case).flatten()
        num_cells = len(cells)
        needed.append(share_for(cells))
        best = cells.sort(descending=True).values[: max(1, num_cells // 4)]
        quarter.append(float(best.sum() / cells.sum()))
    n = len(needed)
    return HeadSparsity(sum(needed) / n, sum(quarter) / n, num_cells, n)


def cell_energy(case: Case) -> Float[Tensor, "L H"]:
    """‖Δ‖² by layer and KV head, all channels."""
    total = []
    for name, delta in case.delta().items():
        heads = case.bench.canonical(case.chunk).tensors[name].shape[2]
        by_head = delta.view(*delta.shape[:2], heads, -1)
        total.append(by_head.square().sum((1, 3)))
    return torch.stack(total).sum(0)
