"""Look at each layer's scores and values, as the model's own layers make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from kamera.engines.hf.backbone import Backbone

NAME = "kamera_parts"

Look = Callable[[int, Tensor, Tensor], None]
"""Called with (layer, scores [Q, R, T] with the mask added, values [Q, T, D]), the model's dtype."""


@contextmanager
def parts_shown(backbone: Backbone, look: Look) -> Iterator[None]:
    """Inside, each layer calls `look` before its softmax. The layers must be given a 4-D mask."""
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
        look(module.layer_idx, scores[0], values[0])
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype)
        return (weights @ values).transpose(1, 2).contiguous(), weights

    configs = {id(c): c for c in (layer.self_attn.config for layer in backbone.decoder.layers)}
    before = {key: config._attn_implementation for key, config in configs.items()}
    ALL_ATTENTION_FUNCTIONS.register(NAME, attend)
    try:
        for config in configs.values():
            config._attn_implementation = NAME
        yield
    finally:
        for key, config in configs.items():
            config._attn_implementation = before[key]
