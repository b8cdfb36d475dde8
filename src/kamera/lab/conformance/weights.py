"""Random weights under which no layer is close to linear.

A model at its default initialisation (std 0.02) attends almost evenly and its residual stream hardly moves:
a wrong key changes nothing that a test could see. Here each matrix has a gain of its own over
1/sqrt(inputs), so that attention is peaked and every layer rewrites the stream.
"""

import math
from typing import Any

import torch

TEXT_GAIN = 1.5
ROUTER_GAIN = 4.0
TOWER_GAIN = 1.0
AUDIO_GAIN = 1.5
"""Its convolutions and their GELUs let little through: at 1.0 two clips are almost one."""

MERGER_GAIN = 3.0
"""Deepstack features are added to a stream that earlier layers have made large."""

_TOWERS = ("visual", "vision", "audio", "aligner", "projector", "connector")


@torch.no_grad()
def redraw(model: Any, seed: int) -> None:
    """Draw every weight again, in place, from one seed."""
    generator = torch.Generator().manual_seed(seed)
    table = model.get_input_embeddings()
    scale = getattr(table, "scalar_embed_scale", 1.0)  # Gemma's, which would drown the layers
    named = [*model.named_parameters(), *_biases_of_routers(model)]
    for name, weight in named:
        noise = torch.randn(weight.shape, generator=generator)
        if weight.ndim < 2:  # a norm's scale stays around its own value, a bias around zero
            weight.add_(0.2 * noise)
        elif "embed" in name and weight.ndim == 2:
            weight.copy_(noise / scale if weight is table.weight else noise)
        else:
            weight.copy_(_gain(name) / math.sqrt(math.prod(weight.shape[1:]) or 1) * noise)
    _scale_experts(model)
    if any(name.endswith("mlp.gate.weight") for name, _ in model.named_parameters()):
        settle_routing(model)


def _gain(name: str) -> float:
    if "merger" in name:
        return MERGER_GAIN
    if "audio" in name:
        return AUDIO_GAIN
    return TOWER_GAIN if any(part in name for part in _TOWERS) else TEXT_GAIN


def _biases_of_routers(model: Any) -> list[tuple[str, torch.Tensor]]:
    return [(n, b) for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")]


@torch.no_grad()
def settle_routing(model: Any) -> None:
    """Let tokens choose experts by a mark that no layer overwrites, so that rounding decides nothing.

    At random, two of four experts are so close for a few tokens in a thousand that bfloat16 flips them, and a
    flipped expert is an error of order 1 that no bound can tell from a mistake. Here the first four
    channels of the stream hold a mark, one of two by the token's id; what writes to the stream leaves them
    alone, and routers read nothing else.
    """
    marks = torch.tensor([[3.0, 2.0, 0.0, 1.0], [0.0, 1.0, 3.0, 2.0]])
    hidden = model.config.get_text_config().hidden_size
    embeddings = model.get_input_embeddings().weight
    embeddings[:, :4] = marks[torch.arange(len(embeddings)) % 2]
    for name, weight in model.named_parameters():
        in_tower = any(part in name for part in _TOWERS)
        if name.endswith("mlp.gate.weight"):
            weight.zero_()[:, :4] = torch.eye(4) * ROUTER_GAIN
        elif name.endswith("post_attention_layernorm.weight"):
            weight[:4] = 1.0
        elif (
            weight.ndim >= 2
            and weight.shape[-2] == hidden
            and (in_tower or name.endswith(("o_proj.weight", "down_proj.weight", "down_proj")))
        ):
            weight[..., :4, :] = 0.0
        elif in_tower and name.endswith("bias") and len(weight) == hidden:
            deepstack = "deepstack" in name or "merger_list" in name
            weight[:4] = torch.zeros(4) if deepstack else marks[0]
    for _, bias in _biases_of_routers(model):
        bias.mul_(0.2)


@torch.no_grad()
def _scale_experts(model: Any) -> None:
    """Experts are stacked [E, out, in]: their inputs are the last dimension alone."""
    for _, weight in model.named_parameters():
        if weight.ndim == 3:
            weight.mul_(math.sqrt(weight.shape[1]))
