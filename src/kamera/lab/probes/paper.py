"""What the paper measured of the window operations (section 5, Table 1), by family of attention."""

from typing import Any

from kamera.engines.hf.backbone import Backbone

CLIPS = "Video-MME segments, n = 25 to 32"
ORBIT = {"gqa": {"eta_orbit": 0.92, "eta_exact": 0.94}}
SURVIVOR = {
    "gqa": {"kl": 0.015, "eta_removal": 0.87},
    "deepstack": {"kl": 0.113, "eta_removal": 0.83},
    "mla": {"kl": 0.023, "eta_removal": 0.82},
}
RECALL = {
    "gqa": {"eta_stale": -0.68, "eta_fresh": 0.87, "flip_stale": 0.25, "flip_fresh": 0.75},
    "deepstack": {"eta_stale": -2.85, "eta_fresh": 0.96, "flip_stale": 0.00, "flip_fresh": 1.00},
    "mla": {"eta_stale": 0.29, "eta_fresh": 0.81, "flip_stale": 0.00, "flip_fresh": 0.67},
}
MODELS = {"gqa": "Qwen2.5-VL-7B", "deepstack": "Qwen3-VL-8B", "mla": "Kimi-VL-A3B"}


def attention_family(backbone: Backbone) -> str:
    """`mla`, `deepstack`, `mha` or `gqa`: the columns of Table 1, and what has none."""
    if backbone.is_latent:
        return "mla"
    vision = getattr(backbone.config, "vision_config", None)
    if getattr(vision, "deepstack_visual_indexes", None):
        return "deepstack"
    text = backbone.text_config
    return "mha" if text.num_key_value_heads == text.num_attention_heads else "gqa"


def paper_figures(table: dict[str, dict[str, float]], backbone: Backbone) -> dict[str, Any]:
    """The paper's figures for this family; empty where it has none."""
    family = attention_family(backbone)
    if family not in table:
        return {}
    return {**table[family], "model": f"{MODELS[family]}, {CLIPS}"}
