"""Metrics of the paper: KL to re-prefill, η, agreement, flip-recover, accuracy."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor


def kl(arm: Float[Tensor, " vocab"], reference: Float[Tensor, " vocab"]) -> float:
    """KL(re-prefill || arm) of the next token, nats, in float64."""
    p = reference.double().log_softmax(-1)
    q = arm.double().log_softmax(-1)
    return float((p.exp() * (p - q)).sum().clamp_min(0.0))


def eta(arm_kl: Sequence[float], blind_kl: Sequence[float]) -> float | None:
    """η = 1 - KL(arm) / KL(blind) of the means; None where blind has no gap to close."""
    gap = sum(blind_kl)
    return None if gap <= 0 else 1.0 - sum(arm_kl) / gap


def agreement(answers: Sequence[int], reference: Sequence[int]) -> float:
    """Share of items on which the arm chooses re-prefill's token."""
    return sum(a == b for a, b in zip(answers, reference, strict=True)) / len(reference)


def flip_recover(
    answers: Sequence[int], blind: Sequence[int], reference: Sequence[int]
) -> tuple[float | None, int]:
    """Among the items where blind flips re-prefill's answer, the share that the arm restores; and n."""
    flips = [i for i, (b, r) in enumerate(zip(blind, reference, strict=True)) if b != r]
    if not flips:
        return None, 0
    return sum(answers[i] == reference[i] for i in flips) / len(flips), len(flips)
