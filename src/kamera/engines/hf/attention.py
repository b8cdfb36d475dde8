"""Look at attention: the models' own layers, with an attention function that shows what it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from kamera.engines.contract import Observe
from kamera.engines.hf.backbone import Backbone

NAME = "kamera_observed"

Look = Callable[[int, Tensor, Tensor, Tensor], None]
"""Called with (layer, scores [Q, R, T] with the mask added, weights [Q, R, T], values [Q, T, D]): scores and
values in the model's dtype, weights in float32.
"""


@contextmanager
def attention_shown(backbone: Backbone, look: Look) -> Iterator[None]:
    """Inside, each layer calls `look` behind its softmax.

    The layers must be given a 4-D mask: none is made for this function. The towers aren't touched.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def attend(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor,
        scaling: float,
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        share = query.shape[1] // key.shape[1]
        keys, values = (t.repeat_interleave(share, dim=1) for t in (key, value))
        scores = query @ keys.transpose(-1, -2) * scaling + attention_mask
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32)
        look(module.layer_idx, scores[0], weights[0], values[0])
        out = weights.to(values.dtype) @ values
        return out.transpose(1, 2).contiguous(), weights

    layers = backbone.decoder.layers
    configs = {id(c): c for c in (layer.self_attn.config for layer in layers)}.values()
    before = [config._attn_implementation for config in configs]
    ALL_ATTENTION_FUNCTIONS.register(NAME, attend)
    try:
        for config in configs:
            config._attn_implementation = NAME
        yield
    finally:
        for config, name in zip(configs, before, strict=True):
            config._attn_implementation = name


@contextmanager
def observed(backbone: Backbone, observe: Observe) -> Iterator[None]:
    """`attention_shown` for the weights alone: `observe(layer, weights)`."""
    with attention_shown(backbone, lambda layer, _, weights, __: observe(layer, weights)):
        yield
