"""The ModelKey of a loaded Transformers model."""

from pathlib import Path

import transformers

from kamera.engines.hf.backbone import Backbone
from kamera.identity import ModelKey, Shard, weights_digest


def model_key(backbone: Backbone, folder: Path) -> ModelKey:
    """All that decides KV bytes. The model's id is left empty: a folder's name decides nothing."""
    model, num_layers = backbone.model, backbone.text_config.num_hidden_layers
    layout = cache_layout(backbone)
    major, minor = transformers.__version__.split(".")[:2]
    attention = model.config._attn_implementation
    return ModelKey(
        model_id="",
        model_type=model.config.model_type,
        weights_digest=weights_digest(folder),
        dtype=str(model.dtype).removeprefix("torch."),
        quantization=None,
        rope=backbone.rope.fingerprint(),
        layout=layout,
        shard=Shard(0, 1, 0, num_layers, 0, int(layout["num_kv_heads"])),
        adapter=None,
        numerics=f"transformers-{major}.{minor}/{attention}/{model.device.type}",
    )


def cache_layout(backbone: Backbone) -> dict[str, int | str]:
    """The family of attention and the sizes of what it caches."""
    text, num_layers = backbone.text_config, backbone.text_config.num_hidden_layers
    if backbone.is_latent:
        return {
            "kind": "mla",
            "num_layers": num_layers,
            "num_kv_heads": 1,
            "latent_dim": text.kv_lora_rank,
            "head_dim": backbone.rope.head_dim,
        }
    num_kv_heads = text.num_key_value_heads
    return {
        "kind": "mha" if num_kv_heads == text.num_attention_heads else "gqa",
        "num_layers": num_layers,
        "num_kv_heads": num_kv_heads,
        "head_dim": backbone.rope.head_dim,
    }
