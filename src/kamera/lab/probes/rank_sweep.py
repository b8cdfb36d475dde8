"""How thin is the patch? KL by rank, and where more buys nothing (paper Figure 5, section C.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kamera.lab.metrics import eta, kl
from kamera.lab.probes.case import Case
from kamera.patch import form_patch

RANKS = (1, 2, 4, 8, 16, 32, 64)
SHARE = 0.94
"""The paper's plateau: rank 32 closes 94 % of the gap between blind and rank 64."""


@dataclass(frozen=True)
class RankSweep:
    """Mean KL to re-prefill, nats, with B under a rank-m patch.

    Attributes:
        ranks: m; a channel of fewer tokens or features has a lower full rank.
        kl: by rank.
        eta: share of the blind gap that is closed, by rank; None without a gap.
        blind_kl: rank 0.
        functional_rank: the smallest of `ranks` that closes 94 % of the gap from blind to the largest rank.
        n: cases.
    """

    ranks: tuple[int, ...]
    kl: tuple[float, ...]
    eta: tuple[float | None, ...]
    blind_kl: float
    functional_rank: int
    n: int


def probe_rank_sweep(cases: Iterable[Case], *, ranks: Sequence[int] = RANKS) -> RankSweep:
    """Sweep m over the truncations of one full patch."""
    ranks = sorted(ranks)
    blind: list[float] = []
    by_rank: dict[int, list[float]] = {rank: [] for rank in ranks}
    for case in cases:
        reference = case.reference()
        patch = form_patch(case.delta(), "sweep")
        blind.append(kl(case.with_patch(None), reference))
        for rank in ranks:
            by_rank[rank].append(kl(case.with_patch(patch.truncate(rank)), reference))
    n = len(blind)
    means = [sum(by_rank[rank]) / n for rank in ranks]
    return RankSweep(
        tuple(ranks),
        tuple(means),
        tuple(eta(by_rank[rank], blind) for rank in ranks),
        sum(blind) / n,
        functional_rank(ranks, means, sum(blind) / n),
        n,
    )


def functional_rank(
    ranks: Sequence[int], kls: Sequence[float], blind_kl: float, share: float = SHARE
) -> int:
    """The smallest rank that closes `share` of the gap from blind to the last rank's KL; the last where the
    patch makes it worse.
    """
    enough = blind_kl - share * (blind_kl - kls[-1])
    found = (rank for rank, value in zip(ranks, kls, strict=True) if value <= enough)
    return next(found, ranks[-1])
