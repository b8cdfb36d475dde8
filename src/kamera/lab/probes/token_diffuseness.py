"""Is there a small set of important tokens? Δ's energy by token, and what the best of them give back.

Paper section 4, Figure 6a.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kamera.arms.laid_out import LaidOut
from kamera.arms.top_deficit import deficit_norms
from kamera.lab.metrics import eta, kl
from kamera.lab.probes.case import Case

SHARES = (0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0)
FIRST = (8, 32)


@dataclass(frozen=True)
class TokenDiffuseness:
    """Mean over the cases. A token's ‖Δ‖ is over all layers and channels, each in units of its own KV.

    Attributes:
        shares: p, of B's tokens.
        energy: by p, the share of ‖Δ‖² in the top p.
        share_for_90: the smallest share of the tokens that holds 90 % of ‖Δ‖².
        oracle_eta: by p, η when the top p have re-prefill's KV and the rest is blind: an upper bound on what
            recomputing them gives, for recomputed tokens still read blind ones.
        first: k.
        first_eta: by k, η when the first k tokens have re-prefill's KV.
        blind_kl, oracle_kl, first_kl: the mean KL that these η are made of, nats.
        n: cases.
    """

    shares: tuple[float, ...]
    energy: tuple[float, ...]
    share_for_90: float
    oracle_eta: tuple[float | None, ...]
    first: tuple[int, ...]
    first_eta: tuple[float | None, ...]
    blind_kl: float
    oracle_kl: tuple[float, ...]
    first_kl: tuple[float, ...]
    n: int


def probe_token_diffuseness(
    cases: Iterable[Case], *, shares: Sequence[float] = SHARES, first: Sequence[int] = FIRST
) -> TokenDiffuseness:
    """Rank B's tokens by their true ‖Δ‖."""
    energy, needed, blind = [], [], []
    by_share: dict[float, list[float]] = {p: [] for p in shares}
    by_first: dict[int, list[float]] = {k: [] for k in first}
    for case in cases:
        norms, reference = token_norms(case), case.reference()
        total = norms.square().sum()
        energy.append([float(norms[top(norms, p)].square().sum() / total) for p in shares])
        needed.append(share_for(norms.square()))
        blind.append(kl(case.with_patch(None), reference))
        for p in shares:
            by_share[p].append(kl(case.with_rows(top(norms, p)), reference))
        for k in first:
            leading = torch.arange(len(norms)) < k
            by_first[k].append(kl(case.with_rows(leading), reference))
    return TokenDiffuseness(
        tuple(shares),
        tuple(torch.tensor(energy).mean(0).tolist()),
        _mean(needed),
        tuple(eta(by_share[p], blind) for p in shares),
        tuple(first),
        tuple(eta(by_first[k], blind) for k in first),
        _mean(blind),
        tuple(_mean(by_share[p]) for p in shares),
        tuple(_mean(by_first[k]) for k in first),
        len(blind),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def token_norms(case: Case) -> Float[Tensor, " B"]:
    """‖Δ‖ of each of B's tokens, as the oracle arm ranks them."""
    start, end = case.span
    window = LaidOut(case.request, case.bench.blind(case.chunks))
    return deficit_norms(case.bench, window)[start:end]


def top(scores: Float[Tensor, " B"], share: float) -> Bool[Tensor, " B"]:
    """The highest `share` of the tokens, rounded up; first ones at a tie."""
    count = math.ceil(share * len(scores) - 1e-9)
    rows = torch.zeros(len(scores), dtype=torch.bool)
    rows[scores.argsort(descending=True, stable=True)[:count]] = True
    return rows


def share_for(energy: Float[Tensor, " cells"], share: float = 0.9) -> float:
    """The smallest share of the cells that holds `share` of the energy; 0 where there is none."""
    ranked = energy.double().sort(descending=True).values.cumsum(0)
    if ranked[-1] <= 0:
        return 0.0
    return float((ranked < share * ranked[-1]).sum() + 1) / len(energy)
