"""First weights for nano-mha's CLIP tower, from which handwriting is learned in minutes rather than hours.

A patch of 28 px shows a quarter of a legend's digit, and CLIP has no notion of neighbours: positions are
learned vectors. So its patch embedding begins as the principal components of the frames' patches, its
positions as codes (which 56 px tile, which quarter of it, which 112 px quadrant, which quarter of that),
and four heads of layer 0 gather the quarters of a token's tile, those of layer 1 the quarters of its
quadrant. The rest begins at random. Then the first three layers learn by themselves, one after another, and
at last all of it together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from kamera.lab.nano.distill_stage import Lesson, Scale
from kamera.lab.nano.frame_pool import HEADS
from kamera.lab.nano.vision_stage import loss_and_hits

TILE, QUARTER, QUADRANT, QUARTER_OF_QUADRANT = 0, 16, 20, 24
"""Where each code begins among the hidden dims."""
OWN, GATHERED = 28, 64
"""Where a token's own components begin, and those gathered from its tile."""
CODE, GAIN = 2.0, 2.5
NOISE = 0.8
"""On a layer's inputs, up to this share of their deviation: it stands for handwriting that wasn't seen."""


def start_clip(tower: Any, pixels: Tensor) -> None:
    """`pixels`: `[num_frames, 3, 224, 224]`, normalised."""
    with torch.no_grad():
        _start_patches(tower.embeddings, pixels)
        codes = position_codes(8)
        tower.embeddings.position_embedding.weight[1:, :OWN] = CODE * codes
        layers = tower.encoder.layers
        _gather(layers[0].self_attn, TILE, 16, QUARTER)
        _gather(layers[1].self_attn, QUADRANT, 4, QUARTER_OF_QUADRANT)
        _move_content(layers[0].self_attn)


def learn_layer(
    tower: Any,
    number: int,
    pixels: Callable[[Tensor], Tensor],
    lessons: Sequence[Lesson],
    *,
    count: int,
    steps: int,
    rate: float = 2e-3,
) -> dict[str, float]:
    """One layer learns by itself what every token of these lessons shows, through heads that are thrown away.

    The layers below are done, so that its inputs are computed once. `pixels` gives the tower's pixels of
    frames; `count` frames of each lesson a step. Gives the last accuracies.
    """
    layer = tower.encoder.layers[number]
    states = [_states(tower, number, pixels, lesson) for lesson in lessons]
    spreads = [inputs[:200].std((0, 1)) for inputs in states]
    heads = nn.ModuleDict({name: nn.Linear(states[0].shape[-1], HEADS[name]) for name in HEADS})
    parameters = [*layer.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.2)
    hits: dict[str, float] = {}
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 30) * (1 - 0.97 * step / steps)
        loss = torch.zeros(())
        for inputs, lesson, spread in zip(states, lessons, spreads, strict=True):
            rows = torch.randint(len(inputs), (count,))
            labels = {name: value[rows] for name, value in lesson.labels.items()}
            given = inputs[rows] + NOISE * torch.rand(()) * spread * torch.randn(inputs[rows].shape)
            asked, found = loss_and_hits(heads, layer(given, None)[:, 1:], labels)
            loss = loss + asked
            hits.update(found)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return hits


def learn_projector(
    model: Any,
    pixels: Callable[[Tensor], Tensor],
    lessons: Sequence[Lesson],
    scale: Scale,
    *,
    count: int,
    steps: int,
    rate: float = 2e-3,
) -> dict[str, float]:
    """The projector learns by itself: what every token shows, and the teacher's embeddings.

    The lessons are whole frames with the teacher's embeddings; its outputs are normalised (`Scale.fold`).
    """
    tower, projector = model.model.vision_tower, model.model.multi_modal_projector
    states = [_states(tower, len(tower.encoder.layers), pixels, one)[:, 1:] for one in lessons]
    width = len(scale.mean)
    heads = nn.ModuleDict({name: nn.Linear(width, HEADS[name]) for name in HEADS})
    parameters = [*projector.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.05)
    scale.fold([projector.linear_2], inverse=True)
    hits: dict[str, float] = {}
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 30) * (1 - 0.97 * step / steps)
        loss = torch.zeros(())
        for inputs, lesson in zip(states, lessons, strict=True):
            rows = torch.randint(len(inputs), (count,))
            labels = {name: value[rows] for name, value in lesson.labels.items()}
            features = projector(inputs[rows])
            asked, found = loss_and_hits(heads, features, labels)
            loss = loss + asked + scale.error(features, lesson.targets[rows])
            hits.update(found)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    scale.fold([projector.linear_2], inverse=False)
    return {**hits, "error": float(loss.detach())}


@torch.no_grad()
def _states(tower: Any, number: int, pixels: Callable[[Tensor], Tensor], lesson: Lesson) -> Tensor:
    """What layer `number` is given: `[num_frames, 1 + tokens, hidden]`."""
    parts = []
    for images in lesson.images.split(50):  # type: ignore[no-untyped-call]
        hidden = tower.pre_layrnorm(tower.embeddings(pixels(images)))
        for layer in tower.encoder.layers[:number]:
            hidden = layer(hidden, None)
        parts.append(hidden)
    return torch.cat(parts)


def position_codes(side: int) -> Tensor:
    """`[side * side, 28]`: one-hot codes of every cell's tile, quarter, quadrant, and quarter of that."""
    row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    parts = (
        (row // 2 * 4 + column // 2, 16),
        (row % 2 * 2 + column % 2, 4),
        (row // 4 * 2 + column // 4, 4),
        (row // 2 % 2 * 2 + column // 2 % 2, 4),
    )
    codes = [torch.nn.functional.one_hot(part.flatten(), size) for part, size in parts]
    return torch.cat(codes, 1).float()


def _start_patches(embeddings: Any, pixels: Tensor) -> None:
    """Whitened components; the convolution has no bias, so the positions take the mean away."""
    hidden, _, size, _ = embeddings.patch_embedding.weight.shape
    side = pixels.shape[-1] // size
    cells = pixels.view(len(pixels), 3, side, size, side, size).permute(0, 2, 4, 1, 3, 5)
    rows = cells.reshape(-1, 3 * size * size)
    mean = rows.mean(0)
    _, values, vectors = torch.pca_lowrank(rows - mean, q=GATHERED - OWN, center=False, niter=4)
    weight = torch.zeros(hidden, rows.shape[1])
    weight[OWN:GATHERED] = (vectors / (values / len(rows) ** 0.5)).T
    embeddings.patch_embedding.weight.copy_(weight.view_as(embeddings.patch_embedding.weight))
    embeddings.position_embedding.weight.mul_(0.1)
    embeddings.position_embedding.weight[1:] -= weight @ mean


def _gather(attention: Any, group: int, size: int, part: int) -> None:
    """Head i of the first four attends to part i of a token's own group."""
    head_dim = attention.head_dim
    for head in range(4):
        first = head * head_dim
        for layer in (attention.q_proj, attention.k_proj):
            layer.weight[first : first + head_dim] = 0
            dims = torch.arange(size)
            layer.weight[first + dims, group + dims] = GAIN
        attention.q_proj.bias[first + size] = CODE * GAIN
        attention.k_proj.weight[first + size, part + head] = GAIN


def _move_content(attention: Any) -> None:
    """The four heads of layer 0 bring a quarter's first components into dims of their own."""
    head_dim = attention.head_dim
    dims = torch.arange(head_dim)
    for head in range(4):
        rows = head * head_dim + dims
        attention.v_proj.weight[rows] = 0
        attention.v_proj.weight[rows, OWN + dims] = 1
        attention.out_proj.weight[:, rows] = 0
        attention.out_proj.weight[GATHERED + rows, rows] = 1
