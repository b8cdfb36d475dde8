"""Which part of the teacher's embeddings travels as deepstack features: color, and shape.

The teacher's embedding of a token is split into three parts that add up to it: what tells the color, what
tells the shape or what a shell-game scene shows, and the rest. The rest is the embedding; the other two are
added after language layers 0 and 1. So a model that loses its deepstack features loses the colors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kamera.lab.nano.frame_pool import IGNORE

COLOR, SHAPE = ("color",), ("shape", "star")


def class_directions(
    targets: Sequence[Tensor], labels: Sequence[dict[str, Tensor]], names: Sequence[str]
) -> Tensor:
    """`[classes, hidden]`: the class means of these labels, each pool's about its own mean."""
    rows = []
    for target, label in zip(targets, labels, strict=True):
        for name in names:
            shown = label[name] != IGNORE
            classes = torch.unique(label[name][shown])
            if len(classes) < 2:
                continue
            means = torch.stack([target[label[name] == value].mean(0) for value in classes])
            rows.append(means - means.mean(0))
    return torch.cat(rows)


def projections(targets: Sequence[Tensor], labels: Sequence[dict[str, Tensor]]) -> list[Tensor]:
    """Orthogonal projections `[hidden, hidden]` onto the color's and the shape's directions, disjoint."""
    color = _basis(class_directions(targets, labels, COLOR))
    shape = class_directions(targets, labels, SHAPE)
    shape = _basis(shape - shape @ color.T @ color)
    return [color.T @ color, shape.T @ shape]


def _basis(rows: Tensor) -> Tensor:
    _, values, vectors = torch.linalg.svd(rows, full_matrices=False)
    kept: Tensor = vectors[values > 0.02 * values[0]]
    return kept


def with_levels(targets: Tensor, onto: Sequence[Tensor]) -> Tensor:
    """`[..., hidden]` -> `[..., hidden * (1 + levels)]`: the rest, then each level's part."""
    parts = [targets @ matrix for matrix in onto]
    return torch.cat([targets - sum(parts), *parts], -1)
