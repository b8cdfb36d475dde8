"""Is readout lossless? Attention over A and B together, against the merge of attention over each.

The log-sum-exp state merge (paper section 2): o = (1 - μ) o_B + μ o_A, where μ is A's share of the softmax
mass. A question that reads an answer out of one chunk doesn't care that the chunk was cached apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.engines.hf.attention import attention_shown
from kamera.lab.probes.case import Case


@dataclass(frozen=True)
class StateMerge:
    """The tail's attention, all layers and heads.

    Attributes:
        error: largest |merged - direct|, by layer.
        worst: largest |merged - direct| / bound. At most 1: the merge is exact, to rounding.
        mass_on_b: share of the tail's softmax mass that lies on B, mean over heads and queries, by layer.
    """

    error: tuple[float, ...]
    worst: float
    mass_on_b: tuple[float, ...]


def probe_state_merge(case: Case) -> StateMerge:
    """Split the window in three, before B, B, and behind it, and merge the three in each layer."""
    num_window = sum(chunk.num_tokens for chunk in case.chunks)
    start, end = case.span
    rows = case.rows(num_window, num_window + case.tail.num_tokens)
    errors, worst, mass = [], 0.0, []

    def look(_: int, scores: Tensor, __: Tensor, values: Tensor) -> None:
        nonlocal worst
        scores, values = scores.float(), values.float()
        ends = [start, end, scores.shape[-1]]
        parts = [
            attend(scores[..., a:b], values[:, a:b]) for a, b in zip([0, *ends], ends, strict=False)
        ]
        gap = (merge(parts)[0] - attend(scores, values)[0]).abs()
        errors.append(float(gap.max()))
        worst = max(worst, float((gap / rounding_bound(scores, values, parts)).max()))
        mass.append(float(torch.softmax(scores, -1)[..., start:end].sum(-1).mean()))

    chunks = [*case.chunks, case.tail]
    bench = case.bench
    vision, held = bench.vision(chunks), bench.full(chunks).kv  # before the layers are looked at
    with attention_shown(case.engine.backbone, look):
        bench.open.recompute(
            chunks,
            vision,
            held,
            rows,
            lambda layer, fresh, held: torch.ones(case.tail.num_tokens, dtype=torch.bool),
        )
    return StateMerge(tuple(errors), worst, tuple(mass))


State = tuple[Tensor, Tensor]
"""Output [Q, R, D] and log-sum-exp of the scores [Q, R, 1]: all that is left of a set of keys."""


def attend(scores: Float[Tensor, "Q R T"], values: Float[Tensor, "Q T D"]) -> State:
    """Attention over one set of keys. Without a visible key the log-sum-exp is about the dtype's minimum."""
    return torch.softmax(scores, -1) @ values, scores.logsumexp(-1, keepdim=True)


def merge(states: Sequence[State]) -> State:
    """The state of the union of disjoint sets of keys."""
    outputs = torch.stack([output for output, _ in states])
    masses = torch.stack([lse for _, lse in states])
    total = masses.logsumexp(0)
    return ((masses - total).exp() * outputs).sum(0), total


def rounding_bound(
    scores: Float[Tensor, "Q R T"], values: Float[Tensor, "Q T D"], parts: Sequence[State]
) -> Float[Tensor, "Q R D"]:
    """How far the two ways may lie apart by rounding alone, to first order in the unit roundoff u.

    Both are Σ p v of the same scores. A weight's relative error is at most u (r + 4), with r the range of the
    visible scores below their largest (s - max is rounded before exp). A sum over n keys adds n u for the
    numerator and for the denominator, and the merge's weights add 4 u max |log-sum-exp|. Twice, for the two
    ways: 2 u (2 (n + r + 4) + 4 max |lse|) Σ p |v|. Weights lost to underflow: at most n · tiny · max |v|.
    """
    info = torch.finfo(scores.dtype)
    seen = scores > info.min / 2
    top = scores.amax(-1, keepdim=True)
    spread = torch.where(seen, top - scores, 0.0).amax(-1, keepdim=True)
    lse = torch.stack([torch.where(part > info.min / 2, part, 0.0).abs() for _, part in parts])
    n = scores.shape[-1]
    factor = info.eps * (2 * (n + spread + 4) + 4 * lse.amax(0))  # eps = 2 u
    scale = torch.softmax(scores, -1) @ values.abs()
    return factor * scale + n * info.tiny * values.abs().amax()
