"""Stage 1 of the training: the vision tower learns to say what every merged token shows.

Dense labels (colors, digits, shapes, stars, cups) through linear heads that are thrown away. The tower
is then frozen, so that stage 2 trains the language model on embeddings computed once.
"""

import math
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kamera.lab.nano.family import Family
from kamera.lab.nano.frame_pool import HEADS, IGNORE, FramePool


def loss_and_hits(
    heads: nn.ModuleDict, features: Tensor, labels: dict[str, Tensor]
) -> tuple[Tensor, dict[str, float]]:
    total = features.new_zeros(())
    hits = {}
    for name in HEADS:
        mask = labels[name] != IGNORE
        if not mask.any():
            continue
        logits, target = heads[name](features[mask]), labels[name][mask]
        weight = None
        if name in ("color", "digit"):  # most legend tokens show nothing
            weight = torch.ones(HEADS[name])
            weight[-1] = 0.1
        total = total + F.cross_entropy(logits, target, weight=weight)
        shown = (
            target != HEADS[name] - 1
            if weight is not None
            else torch.ones_like(target, dtype=torch.bool)
        )
        hits[name] = float((logits.argmax(-1) == target)[shown].float().mean())
    return total, hits


@dataclass(frozen=True)
class Phase:
    """Some steps over pools that are taken in turn; `counts` frames of each a step."""

    pools: list[FramePool]
    counts: list[int]
    steps: int
    rate: float


def train_vision(
    model: Any, family: Family, phases: list[Phase], held_out: FramePool, *, seed: int
) -> None:
    """Train the tower in place; prints loss and held-out accuracy as it goes."""
    torch.manual_seed(seed)
    hidden = model.config.text_config.hidden_size
    heads = nn.ModuleDict({name: nn.Linear(hidden, count) for name, count in HEADS.items()})
    tower = [p for module in family.tower_modules(model) for p in module.parameters()]
    parameters = [*tower, *heads.parameters()]
    optimizer = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.05)
    start = time.monotonic()
    for number, phase in enumerate(phases):
        for step in range(phase.steps):
            cosine = 0.5 * (1 + math.cos(math.pi * step / phase.steps))
            for group in optimizer.param_groups:
                group["lr"] = phase.rate * min(1.0, step / 50) * (0.02 + 0.98 * cosine)
            turn = step % len(phase.pools)
            pool = phase.pools[turn]
            rows = torch.randint(len(pool.frames), (phase.counts[turn],))
            labels = {k: v[rows] for k, v in pool.labels.items()}
            loss, _ = loss_and_hits(heads, family.embed(model, pool.images[rows]), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            if step % 100 == 99:
                report = " ".join(
                    f"{k} {v:.3f}" for k, v in check(model, family, heads, held_out).items()
                )
                clock = f"{time.monotonic() - start:.0f}s loss {float(loss.detach()):.3f}"
                print(
                    f"vision {number}:{step + 1}/{phase.steps} {clock} | test {report}", flush=True
                )


@torch.no_grad()
def check(
    model: Any, family: Family, heads: nn.ModuleDict, held_out: FramePool
) -> dict[str, float]:
    """Accuracy by label on held-out frames."""
    rows = torch.randint(len(held_out.frames), (96,))
    labels = {k: v[rows] for k, v in held_out.labels.items()}
    return loss_and_hits(heads, family.embed(model, held_out.images[rows]), labels)[1]
