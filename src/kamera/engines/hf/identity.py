"""The ModelKey of a loaded Transformers model."""

from pathlib import Path
from typing import Any

import transformers

from kamera.identity import ModelKey, Shard, weights_digest
from kamera.rope import RopeSpec


def model_key(model: Any, folder: Path, spec: RopeSpec) -> ModelKey:
    """All that decides KV bytes. The model's id is left empty: a folder's name decides nothing."""
    text = model.config.text_config
    num_kv_heads, num_heads = text.num_key_value_heads, text.num_attention_heads
    layout = {
        "kind": "mha" if num_kv_heads == num_heads else "gqa",
        "num_layers": text.num_hidden_layers,
        "num_kv_heads": num_kv_heads,
        "head_dim": spec.head_dim,
    }
    major, minor = transformers.__version__.split(".")[:2]
    attention = model.config._attn_implementation
    return ModelKey(
        model_id="",
        model_type=model.config.model_type,
        weights_digest=weights_digest(folder),
        dtype=str(model.dtype).removeprefix("torch."),
        quantization=None,
        rope=spec.fingerprint(),
        layout=layout,
        shard=Shard(0, 1, 0, text.num_hidden_layers, 0, num_kv_heads),
        adapter=None,
        numerics=f"transformers-{major}.{minor}/{attention}/{model.device.type}",
    )
