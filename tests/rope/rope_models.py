"""The rotary modules of real models, built from tiny configs, and the functions that apply them."""

from dataclasses import dataclass, field
from typing import Any

import torch

from kamera.rope import Rope, read_rope_spec
from text_classes import build_config, build_rotary, modeling

SIZES = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 6,
    "intermediate_size": 64,
    "vocab_size": 64,
    "max_position_embeddings": 32768,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
DEFAULT = {"rope_type": "default", "rope_theta": 1e6}
LINEAR = {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 8192,
}
PROPORTIONAL = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}
MLA = {"num_key_value_heads": 4, "qk_rope_head_dim": 32, "qk_nope_head_dim": 16, "kv_lora_rank": 48}
MLA |= {"v_head_dim": 16, "q_lora_rank": None}


def longrope(num_pairs: int) -> dict[str, Any]:
    """Frequencies that differ by 4 on the two sides of position 4096."""
    return {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "short_factor": [1.0 + 0.01 * i for i in range(num_pairs)],
        "long_factor": [4.0] * num_pairs,
        "factor": 8.0,
        "original_max_position_embeddings": 4096,
    }


@dataclass(frozen=True)
class RotaryModel:
    """One model's rotary scheme.

    `kind` is the language model's type; the rest says what the spec must turn out to be.
    """

    kind: str
    parameters: dict[str, Any]
    axes: str = ""
    layout: str = "half"
    rotary_dim: int = 32
    scaling: float = 1.0
    apply: str = "apply_rotary_pos_emb"
    extra: dict[str, Any] = field(default_factory=dict)

    def build(self) -> tuple[Any, Any]:
        """The rotary module and the text config."""
        config = build_config(
            self.kind, **{**SIZES, **self.extra, "rope_parameters": self.parameters}
        )
        return build_rotary(self.kind, config), config

    def read(self) -> tuple[Any, Rope]:
        """The rotary module and its spec."""
        rotary, config = self.build()
        return rotary, read_rope_spec(rotary, config)

    @torch.no_grad()
    def rotate(
        self, rotary: Any, keys: torch.Tensor, positions: torch.Tensor, *layer_type: str
    ) -> torch.Tensor:
        """Keys [T, H, D] as the model's own code rotates them, in the keys' dtype."""
        position_ids = positions.T[:, None] if positions.shape[1] == 3 else positions.T
        tables = rotary(keys[None, :, 0], position_ids, *layer_type)
        tables = tables if isinstance(tables, tuple) else (tables,)
        key = keys.transpose(0, 1)[None]
        apply = getattr(modeling(self.kind), self.apply)
        rotated = apply(key, *tables) if self.kind == "gemma4_text" else apply(key, key, *tables)[1]
        return rotated[0].transpose(0, 1)


def mrope(*section: int, **more: Any) -> dict[str, Any]:
    return {**DEFAULT, "mrope_section": list(section), **more}


SECTIONED, INTERLEAVED = "t" * 4 + "h" * 6 + "w" * 6, "thw" * 5 + "t"
HEAD = {"head_dim": 32}
YARN_FACTOR = 0.1 * 1.3862943611198906 + 1.0  # 0.1 ln(factor) + 1

MODELS = {
    "llama": RotaryModel("llama", DEFAULT),
    "llama linear": RotaryModel("llama", LINEAR),
    "llama llama3": RotaryModel("llama", LLAMA3),
    "llama yarn": RotaryModel("llama", YARN, scaling=YARN_FACTOR),
    "qwen2": RotaryModel("qwen2", DEFAULT),
    "qwen3": RotaryModel("qwen3", DEFAULT, extra=HEAD),
    "qwen2_vl": RotaryModel("qwen2_vl_text", mrope(4, 6, 6), SECTIONED),
    "qwen2_5_vl": RotaryModel("qwen2_5_vl_text", mrope(4, 6, 6), SECTIONED),
    "qwen2_5_vl yarn": RotaryModel(
        "qwen2_5_vl_text",
        {**YARN, "mrope_section": [4, 6, 6]},
        SECTIONED,
        scaling=YARN_FACTOR,
    ),
    "qwen2_5_omni": RotaryModel(
        "qwen2_5_omni_text",
        mrope(4, 6, 6),
        SECTIONED,
    ),
    "qwen3_vl": RotaryModel(
        "qwen3_vl_text",
        mrope(6, 5, 5, mrope_interleaved=True),
        INTERLEAVED,
        extra=HEAD,
    ),
    "qwen3_vl, config silent": RotaryModel(
        "qwen3_vl_text",
        mrope(6, 5, 5),
        INTERLEAVED,
        extra=HEAD,
    ),
    "qwen3_vl_moe, unequal sections": RotaryModel(
        "qwen3_vl_moe_text",
        mrope(8, 5, 3),
        "thwthwthwthtthtt",
        extra=HEAD,
    ),
    "qwen3_omni_moe": RotaryModel(
        "qwen3_omni_moe_text",
        mrope(6, 5, 5, interleaved=True),
        INTERLEAVED,
        extra=HEAD,
    ),
    "glm4v": RotaryModel(
        "glm4v_text",
        mrope(2, 3, 3, partial_rotary_factor=0.5),
        "tthhhwww",
        layout="pairs",
        rotary_dim=16,
    ),
    "paddleocr_vl": RotaryModel(
        "paddleocr_vl_text",
        mrope(4, 6, 6),
        SECTIONED,
        extra=HEAD,
    ),
    "ernie4_5": RotaryModel(
        "ernie4_5",
        DEFAULT,
        layout="pairs",
        extra=HEAD,
    ),
    "cohere": RotaryModel("cohere", DEFAULT, layout="pairs"),
    "deepseek_v2": RotaryModel(
        "deepseek_v2",
        DEFAULT,
        layout="pairs",
        apply="apply_rotary_emb",
        extra=MLA,
    ),
    "deepseek_v2 yarn": RotaryModel(
        "deepseek_v2",
        YARN,
        layout="pairs",
        scaling=YARN_FACTOR,
        apply="apply_rotary_emb",
        extra=MLA,
    ),
    "deepseek_v3": RotaryModel("deepseek_v3", DEFAULT, extra=MLA),
    "deepseek_v3 yarn": RotaryModel(
        "deepseek_v3",
        YARN,
        scaling=YARN_FACTOR,
        extra=MLA,
    ),
    "phi3 partial": RotaryModel(
        "phi3",
        {**DEFAULT, "partial_rotary_factor": 0.75},
        rotary_dim=24,
    ),
}
"""Schemes that hold at all positions, one for all layers."""

LAYERED = {
    "gemma3": RotaryModel(
        "gemma3_text",
        {"full_attention": LINEAR, "sliding_attention": {**DEFAULT, "rope_theta": 1e4}},
        extra=HEAD,
    ),
    "gemma4": RotaryModel(
        "gemma4_text",
        {"full_attention": PROPORTIONAL, "sliding_attention": {**DEFAULT, "rope_theta": 1e4}},
        extra={**HEAD, "global_head_dim": 32},
    ),
}
"""One scheme for each type of layers."""

SWITCHING = {
    "llama dynamic": RotaryModel(
        "llama",
        {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0},
        extra={"max_position_embeddings": 2048},
    ),
    "phi3 longrope": RotaryModel("phi3", longrope(16), scaling=1.118033988749895),
    "phi4_multimodal longrope": RotaryModel(
        "phi4_multimodal",
        {**longrope(12), "partial_rotary_factor": 0.75},
        rotary_dim=24,
        scaling=1.118033988749895,
    ),
}
"""Schemes with other frequencies beyond a length."""
