"""Language models as data: what a config class fills in when config.json leaves a key out.

The values are those of Transformers' own config classes; a test compares every row with them.
"""

from dataclasses import dataclass
from typing import Literal

from kamera.support.verdict import Axes, Layout

Pattern = Literal[
    "full",
    "window_from_layer",
    "window_all",
    "window_all_if_used",
    "every_nth_full",
    "linear_but_nth",
    "kimi_linear",
    "conv_but",
    "indexed",
    "chunked_where_rope",
    "sparse_where_listed",
    "cross_where_listed",
]
"""How layer types follow from other keys when `layer_types` is absent: see `kamera.support.layers`."""


@dataclass(frozen=True)
class TextModel:
    """A language model's defaults. Counts as in the config; None where the class derives the value.

    Attributes:
        num_kv_heads: None: as many as query heads.
        head_dim: None: hidden size over query heads.
        base: `rope_theta`; `local_base` that of the sliding layers, where it is another one.
        partial: share of a head that rotates; None where the model doesn't read such a key.
        latent, rotary: C and R of MLA.
        scheme: of the full-attention layers when the config names none.
        nth: the interval of `every_nth_full` and `linear_but_nth`; the first sliding layer of
            `window_from_layer`.
        global_head_dim: D of the full-attention layers, where sliding layers have another.
        shared_kv_layers: last layers that read the KV of earlier ones.
        longrope_only: the class reads the names `su` and `yarn` as longrope.
        original_max_positions: `original_max_position_embeddings` when the config has none.
        window: `sliding_window` when the config has none.
    """

    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int | None
    max_positions: int
    head_dim: int | None = None
    base: float = 10_000.0
    local_base: float | None = None
    axes: Axes = "1-D"
    section: tuple[int, ...] = ()
    layout: Layout = "half"
    partial: float | None = None
    latent: int | None = None
    rotary: int | None = None
    scheme: str = "default"
    pattern: Pattern = "full"
    nth: int = 0
    window: int | None = None
    global_head_dim: int | None = None
    shared_kv_layers: int = 0
    longrope_only: bool = False
    original_max_positions: int | None = None


_SECTION = (16, 24, 24)
_INTERLEAVED = (24, 20, 20)
_GLM_SECTION = (8, 12, 12)

TEXTS: dict[str, TextModel] = {
    # Served.
    "llama": TextModel(4096, 32, 32, None, 2048),
    "qwen2": TextModel(4096, 32, 32, 32, 32768, pattern="window_from_layer", window=4096, nth=28),
    "qwen3": TextModel(
        4096, 32, 32, 32, 32768, head_dim=128, pattern="window_from_layer", window=4096, nth=28
    ),
    "qwen2_vl_text": TextModel(
        8192, 80, 64, 8, 32768, base=1e6, axes="sectioned", section=_SECTION,
        pattern="window_from_layer", window=4096, nth=80,
    ),
    "qwen2_5_vl_text": TextModel(
        8192, 80, 64, 8, 32768, base=1e6, axes="sectioned", section=_SECTION,
        pattern="window_from_layer", window=4096, nth=80,
    ),
    "qwen2_5_omni_text": TextModel(
        3584, 28, 28, 4, 32768, base=1e6, axes="sectioned", section=_SECTION,
        pattern="window_from_layer", window=32768, nth=28,
    ),
    "qwen3_vl_text": TextModel(
        4096, 32, 32, 32, 128000, head_dim=128, base=5e5, axes="interleaved", section=_INTERLEAVED
    ),
    "qwen3_vl_moe_text": TextModel(
        2048, 24, 16, 16, 128000, head_dim=128, base=5e5, axes="interleaved", section=_INTERLEAVED
    ),
    "qwen3_omni_moe_text": TextModel(
        2048, 28, 28, 4, 32768, base=1e6, axes="interleaved", section=_INTERLEAVED
    ),
    "paddleocr_vl_text": TextModel(
        1024, 18, 16, 2, 131072, head_dim=128, base=5e5, axes="sectioned", section=_SECTION
    ),
    "glm4v_text": TextModel(
        4096, 40, 32, 2, 32768, axes="sectioned", section=_GLM_SECTION, layout="pairs", partial=1.0
    ),
    "glm4v_moe_text": TextModel(
        4096, 46, 96, 8, 65536, axes="sectioned", section=_GLM_SECTION, partial=0.5
    ),
    "gemma3_text": TextModel(
        2304, 26, 8, 4, 131072, head_dim=256, base=1e6, local_base=1e4,
        pattern="every_nth_full", nth=6, window=4096,
    ),
    "deepseek_v2": TextModel(4096, 32, 32, None, 2048, latent=512, rotary=64, layout="pairs"),
    "deepseek_v3": TextModel(7168, 61, 128, 128, 4096, latent=512, rotary=64),
    # Not served: known well enough to say what they are.
    "mistral": TextModel(4096, 32, 32, 8, 131072, pattern="window_all", window=4096),
    "qwen2_moe": TextModel(2048, 24, 16, 16, 32768),
    "qwen3_moe": TextModel(
        2048, 24, 32, 4, 32768, pattern="window_all_if_used", window=4096
    ),
    "gemma": TextModel(3072, 28, 16, 16, 8192, head_dim=256),
    "gemma2": TextModel(
        2304, 26, 8, 4, 8192, head_dim=256, pattern="every_nth_full", nth=2, window=4096
    ),
    "phi3": TextModel(
        3072, 32, 32, None, 4096, partial=1.0, longrope_only=True, original_max_positions=4096
    ),
    "phi4_multimodal": TextModel(
        3072, 32, 32, 8, 131072, partial=1.0, longrope_only=True, original_max_positions=4096
    ),
    "gemma3n_text": TextModel(
        2048, 35, 8, 2, 32768, head_dim=256, base=1e6, local_base=1e4,
        pattern="every_nth_full", nth=5, window=512, shared_kv_layers=15,
    ),
    "gemma4_text": TextModel(
        2304, 30, 8, 4, 131072, head_dim=256, base=1e6, local_base=1e4, partial=0.25,
        scheme="proportional", pattern="every_nth_full", nth=6, window=512, global_head_dim=512,
    ),
    "qwen3_5_text": TextModel(
        4096, 32, 16, 4, 32768, head_dim=256, axes="interleaved", section=(11, 11, 10),
        partial=0.25, pattern="linear_but_nth", nth=4,
    ),
    "qwen3_5_moe_text": TextModel(
        2048, 40, 16, 2, 32768, head_dim=256, axes="interleaved", section=(11, 11, 10),
        partial=0.25, pattern="linear_but_nth", nth=4,
    ),
    "qwen3_next": TextModel(
        2048, 48, 16, 2, 32768, head_dim=256, partial=0.25, pattern="linear_but_nth", nth=4
    ),
    "kimi_linear": TextModel(
        2304, 27, 32, None, 1048576, latent=512, rotary=64, scheme="none", pattern="kimi_linear"
    ),
    "lfm2": TextModel(2560, 32, 32, 8, 128000, base=1e6, pattern="conv_but"),
    "deepseek_v32": TextModel(
        7168, 61, 128, 128, 163840, latent=512, rotary=64, pattern="indexed"
    ),
    "glm_moe_dsa": TextModel(
        6144, 78, 64, 64, 202752, latent=512, rotary=64, pattern="indexed"
    ),
    "llama4_text": TextModel(
        5120, 48, 40, 8, 131072, head_dim=128, base=5e5, layout="pairs",
        pattern="chunked_where_rope", nth=4, window=8192,
    ),
    "mllama_text_model": TextModel(
        4096, 40, 32, 8, 131072, base=5e5, pattern="cross_where_listed"
    ),
    "minimax_m3_vl_text": TextModel(
        6144, 60, 64, 4, 524288, head_dim=128, base=5e6, pattern="sparse_where_listed"
    ),
}  # fmt: skip
"""Text model type -> its defaults."""

ALIASES = {
    "kimi_k2": "deepseek_v3",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "paddleocr_vl": "paddleocr_vl_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
    "gemma3": "gemma3_text",
}
"""Names that published configs give their text part, and the native class that reads them."""
