"""Random weights under which no layer is close to linear.

A model at its default initialisation (std 0.02) attends almost evenly and its residual stream hardly moves:
a wrong key changes nothing that a test could see. Here each matrix has a gain of its own over
1/sqrt(inputs), so that attention is peaked and every layer rewrites the stream.
"""

import math
from typing import Any

import torch

TEXT_GAIN = 1.5
TOWER_GAIN = 1.0
_TOWERS = ("visual", "vision", "audio", "aligner", "projector", "connector")


@torch.no_grad()
def redraw(model: Any, seed: int) -> None:
    """Draw every weight again, in place, from one seed."""
    generator = torch.Generator().manual_seed(seed)
    named = [*model.named_parameters(), *_biases_of_routers(model)]
    for name, weight in named:
        noise = torch.randn(weight.shape, generator=generator)
        if weight.ndim < 2:  # a norm's scale stays around its own value, a bias around zero
            weight.add_(0.2 * noise)
        elif "embed" in name and weight.ndim == 2:
            weight.copy_(noise)
        else:
            gain = TOWER_GAIN if any(part in name for part in _TOWERS) else TEXT_GAIN
            weight.copy_(gain / math.sqrt(math.prod(weight.shape[1:]) or 1) * noise)
    _scale_experts(model)


def _biases_of_routers(model: Any) -> list[tuple[str, torch.Tensor]]:
    return [(n, b) for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")]


@torch.no_grad()
def _scale_experts(model: Any) -> None:
    """Experts are stacked [E, out, in]: their inputs are the last dimension alone."""
    for _, weight in model.named_parameters():
        if weight.ndim == 3:
            weight.mul_(math.sqrt(weight.shape[1]))
