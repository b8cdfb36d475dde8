"""Configs of a few keys, as small as a verdict needs them."""

from typing import Any

SMALL: dict[str, Any] = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
}
MROPE_OF = {"qwen2_5_vl": {"rope_scaling": {"mrope_section": [8, 12, 12]}}}


def llama(**more: Any) -> dict[str, Any]:
    return {"model_type": "llama", **SMALL, **more}
