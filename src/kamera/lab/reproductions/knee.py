"""The functional rank with its interval: items' curves are resampled and the rank is looked for again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kamera.lab.metrics_paired import NUM_RESAMPLES, SEED
from kamera.lab.probes.rank_sweep import RankSweep, functional_rank, probe_rank_sweep
from kamera.lab.reproductions.figures import JsonFigure, plain
from kamera.lab.reproductions.subject import Subject


def rank_sweeps(subject: Subject) -> list[RankSweep]:
    """One for each of the subject's cases; measured once."""
    found: list[RankSweep] = subject.once(
        "rank sweeps", lambda: [probe_rank_sweep([case]) for case in subject.cases()]
    )
    return found


def functional_rank_of(sweeps: Sequence[RankSweep]) -> JsonFigure:
    """Of one sweep an item; the percentile-bootstrap interval over items, 95 %."""
    kls = np.array([sweep.kl for sweep in sweeps])
    blind = np.array([sweep.blind_kl for sweep in sweeps])
    ranks = sweeps[0].ranks
    n = len(sweeps)
    value = functional_rank(ranks, kls.mean(0).tolist(), float(blind.mean()))
    if n < 2:
        return plain(float(value), n)
    draws = np.random.default_rng(SEED).integers(n, size=(NUM_RESAMPLES, n))
    found = [
        functional_rank(ranks, kls[draw].mean(0).tolist(), float(blind[draw].mean()))
        for draw in draws
    ]
    low, high = np.percentile(found, [2.5, 97.5], method="nearest")
    return {"value": float(value), "low": float(low), "high": float(high), "n": n}
