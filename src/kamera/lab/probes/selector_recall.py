"""Can a cheap signal find the tokens of most deficit? Recall of the oracle's top share (paper Figure 4a)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kamera.arms.key_similarity import directions
from kamera.arms.leverage import leverage
from kamera.lab.probes.case import Case
from kamera.lab.probes.cross_attention import cross_attention
from kamera.lab.probes.token_diffuseness import token_norms, top

EARLY = 2
"""Layers that the cheap selectors may run, as CacheBlend's check does."""


@dataclass(frozen=True)
class SelectorRecall:
    """Mean over the cases.

    Attributes:
        recall: selector -> how much of the oracle's top `share` of the tokens is in its own top `share`.
        random: what a random choice of as many tokens is expected to hold.
        share: of B's tokens.
        n: cases.
    """

    recall: dict[str, float]
    random: float
    share: float
    n: int


def probe_selector_recall(cases: Iterable[Case], *, share: float = 0.5) -> SelectorRecall:
    """Every selector against ‖Δ‖."""
    found: dict[str, list[float]] = {}
    random = []
    for case in cases:
        wanted = top(token_norms(case), share)
        random.append(float(wanted.double().mean()))
        for name, scores in selectors(case).items():
            found.setdefault(name, []).append(recall(top(scores, share), wanted))
    return SelectorRecall(
        {name: float(np.mean(values)) for name, values in found.items()},
        float(np.mean(random)),
        share,
        len(random),
    )


def recall(chosen: Bool[Tensor, " B"], wanted: Bool[Tensor, " B"]) -> float:
    """Share of `wanted` that is in `chosen`."""
    return float((chosen & wanted).sum() / wanted.sum())


def selectors(case: Case) -> dict[str, Float[Tensor, " B"]]:
    """Scores of B's tokens; all but `cross_mass` are had without a whole conditioned forward.

    cross_mass        attention to A, mean of all layers and heads
    cross_mass_early  the same, first two layers
    kv_deviation      ‖Δ‖ in the second layer (CacheBlend)
    position          earlier is higher (EPIC's and MPIC's first k)
    key_norm          norm of the canonical's keys
    key_similarity    largest cosine with one of A's canonical keys
    leverage          leverage in the canonical
    """
    bench, canonical = case.bench, case.bench.canonical(case.chunk)
    mass = torch.stack([weights.sum(-1).mean(0) for weights in cross_attention(case)])
    keys = next(canonical.tensors[c.name] for c in canonical.channels if c.rotates)
    before = [directions(bench.canonical(chunk)) for chunk in case.chunks[: case.target]]
    cosine = directions(canonical) @ torch.cat(before, dim=1).mT
    second = min(1, canonical.num_layers - 1)
    deviation = [delta[second].square().sum(-1) for delta in case.delta().values()]
    return {
        "cross_mass": mass.mean(0),
        "cross_mass_early": mass[:EARLY].mean(0),
        "kv_deviation": torch.stack(deviation).sum(0).cpu(),
        "position": -torch.arange(case.chunk.num_tokens, dtype=torch.float32),
        "key_norm": keys.float().flatten(2).norm(dim=-1).mean(0).cpu(),
        "key_similarity": cosine.amax(-1).mean(0).cpu(),
        "leverage": leverage(canonical),
    }
