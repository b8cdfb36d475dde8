"""Stage 2 of the training: the language model learns to bind, on frozen vision embeddings.

Two losses: the answers, and a dense one at a middle layer that asks every token of a later frame for what
the frames before it say about it (the item's digit, the ball's cup). The dense loss is what makes the
binding live in the frame's own KV, as in a large VLM; its heads are thrown away. In some of the batches
the question can't see the frames before the last: it has to read what the last one absorbed, so that the
model doesn't learn to bind at the question instead. Noise on the embeddings stands for unseen handwriting.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kamera.lab.nano.frame_pool import IGNORE
from kamera.lab.nano.sequences import (
    CUP_CLASSES,
    DIGIT_CLASSES,
    MAX_OFFSET,
    Batch,
    Example,
    Layout,
    Sampler,
)
from kamera.lab.tasks import binding, readout

BIND_LAYER = 5
CUP_LAYERS = (2, 3, 4, 5)
MASKED_SHARE = 0.6
NOISE = 0.4


@dataclass
class Heads:
    """Dense heads over hidden states."""

    digit: nn.Module
    cup: nn.Module

    def parameters(self) -> list[nn.Parameter]:
        return [*self.digit.parameters(), *self.cup.parameters()]


def draw_batch(sampler: Sampler, layout: Layout, tokens: int) -> tuple[str, Batch]:
    """One batch of a random layout, near `tokens` tokens."""
    rng = sampler.rng
    name = str(rng.choice(["binding", "shell", "needle"], p=[0.5, 0.3, 0.2]))
    draw: Callable[[], Example]
    if name == "binding":
        kinds = ["legend"] * int(rng.choice([0, 1, 2, 3], p=[0.08, 0.52, 0.2, 0.2]))
        if rng.random() < 0.25:
            kinds.insert(int(rng.integers(len(kinds) + 1)), "needle")
        questions = [binding.QUESTION, readout.COLOR_QUESTION, readout.SHAPE_QUESTION]
        if rng.random() < 0.15:
            kinds.insert(0, "item")
            questions = questions[1:]
        else:
            kinds.append("item")
        rng.shuffle(questions)
        length = (layout.tokens_of("item") + 2) * len(kinds) + 50
        draw = lambda: sampler.binding(kinds, questions)  # noqa: E731
    elif name == "shell":
        count, with_ball = int(rng.integers(2, 6)), bool(rng.random() < 0.9)
        length = (layout.tokens_of("shell") + 2) * count + 15
        draw = lambda: sampler.shell(count, with_ball)  # noqa: E731
    else:
        count = int(rng.integers(1, 6))
        at = int(rng.integers(count))
        length = (layout.tokens_of("needle") + 2) * count + 15
        draw = lambda: sampler.needle(count, at)  # noqa: E731
    examples: list[Example] = [draw() for _ in range(max(4, tokens // length))]
    prefix, offset = bool(rng.random() < 0.75), int(rng.integers(MAX_OFFSET))
    after = str(rng.choice(layout.family.chat.after))
    return name, layout.batch(examples, prefix=prefix, offset=offset, after=after)


def forward(model: Any, batch: Batch, *, masked: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Logits and all hidden states."""
    text = model.model.get_input_embeddings()(batch.ids)
    levels = batch.vision.split(text.shape[-1], dim=-1)  # type: ignore[no-untyped-call]
    noise = NOISE * float(torch.rand(()))
    vision, *deeper = [level + noise * level.std() * torch.randn_like(level) for level in levels]
    embeddings = text.masked_scatter(batch.is_vision[..., None], vision.to(text.dtype))
    deepstack = {
        "visual_pos_masks": batch.is_vision,
        "deepstack_visual_embeds": [level.flatten(0, 1) for level in deeper],
    }
    out = model.model.language_model(
        inputs_embeds=embeddings,
        position_ids=batch.positions,
        attention_mask=batch.question_mask() if masked else None,
        use_cache=False,
        output_hidden_states=True,
        **(deepstack if deeper else {}),
    )
    return model.lm_head(out.last_hidden_state[batch.labels != IGNORE]), out.hidden_states


def losses(
    model: Any, heads: Heads, batch: Batch, *, masked: bool
) -> tuple[Tensor, dict[str, float]]:
    """The loss of one batch, and its accuracies."""
    logits, hidden = forward(model, batch, masked=masked)
    target = batch.labels[batch.labels != IGNORE]
    total = F.cross_entropy(logits.float(), target)
    answers = (logits.argmax(-1) == target).detach().view(len(batch.ids), -1)[:, ::2]
    report = {f"answer{i}": float(answers[:, i].float().mean()) for i in range(answers.shape[1])}
    mask = batch.digit != IGNORE
    if mask.any():
        out = heads.digit(hidden[BIND_LAYER][mask]).float()
        total = total + F.cross_entropy(out, batch.digit[mask])
        report["bound"] = float((out.argmax(-1) == batch.digit[mask]).float().mean())
    for layer in CUP_LAYERS:
        mask = (batch.cup != IGNORE) & (batch.cup_depth <= layer - 1)
        if not mask.any():
            continue
        out = heads.cup(hidden[layer][mask]).float()
        total = total + F.cross_entropy(out, batch.cup[mask]) / len(CUP_LAYERS)
        if layer == CUP_LAYERS[-1]:
            report["cup"] = float((out.argmax(-1) == batch.cup[mask]).float().mean())
    return total, report


def train_language(
    model: Any,
    sampler: Sampler,
    layout: Layout,
    *,
    steps: int,
    seed: int,
    rate: float = 1.5e-3,
    tokens: int = 3000,
    on_check: Any = None,
) -> None:
    """Train in place; prints running accuracies every 100 steps."""
    torch.manual_seed(seed)
    hidden = model.config.text_config.hidden_size
    heads = Heads(nn.Linear(hidden, len(DIGIT_CLASSES)), nn.Linear(hidden, len(CUP_CLASSES)))
    parameters = [*model.model.language_model.parameters(), *model.lm_head.parameters()]
    everything = [*parameters, *heads.parameters()]
    optimizer = torch.optim.AdamW(everything, lr=rate, betas=(0.9, 0.98), weight_decay=0.05)
    start, seen = time.monotonic(), defaultdict(list)
    for step in range(steps):
        factor = min(1.0, step / 200) * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate * factor
        name, batch = draw_batch(sampler, layout, tokens)
        masked = batch.binds_last and bool(torch.rand(()) < MASKED_SHARE)
        loss, report = losses(model, heads, batch, masked=masked)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(everything, 1.0)
        optimizer.step()
        for key, value in report.items():
            seen[f"{name}.{key}"].append(value)
        if step % 100 == 99:
            means = " ".join(f"{k} {np.mean(v):.3f}" for k, v in sorted(seen.items()))
            print(
                f"language {step + 1}/{steps} {time.monotonic() - start:.0f}s {means}", flush=True
            )
            seen.clear()
            if on_check is not None and step % 500 == 499:
                on_check(step + 1)
