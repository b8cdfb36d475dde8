"""Look at attention weights: the models' own layers, with an attention function that shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from kamera.engines.contract import Observe
from kamera.engines.hf.backbone import Backbone

NAME = "kamera_observed"


@contextmanager
def observed(backbone: Backbone, observe: Observe) -> Iterator[None]:
    """Inside, each layer calls `observe(layer, weights)` with float32 [Q, R, T] after its softmax.

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
        observe(module.layer_idx, weights[0])
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
