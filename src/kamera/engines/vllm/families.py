"""How each model type writes its media in a prompt. The connector serves a model that has a row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineFamily:
    """One model type in vLLM.

    Attributes:
        model_type: `config.model_type`.
        before, after: the special tokens around an item's placeholders; they belong to its chunk.
        placeholder: the config's field with the placeholder's id, for M-RoPE alone.
        grid: the processed input that holds an item's grid of patches, for M-RoPE alone.
    """

    model_type: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    placeholder: str | None = None
    grid: str | None = None

    @property
    def num_axes(self) -> int:
        """Position axes: 3 for M-RoPE."""
        return 3 if self.grid else 1


def _qwen(model_type: str) -> EngineFamily:
    return EngineFamily(
        model_type,
        ("<|vision_start|>",),
        ("<|vision_end|>",),
        placeholder="image_token_id",
        grid="image_grid_thw",
    )


FAMILIES = {
    family.model_type: family
    for family in (
        _qwen("qwen2_vl"),
        _qwen("qwen2_5_vl"),
        _qwen("qwen3_vl"),
        _qwen("qwen3_vl_moe"),
        EngineFamily(
            "kimi_k25", ("<|media_begin|>", "image", "<|media_content|>"), ("<|media_end|>",)
        ),
        EngineFamily("llava"),
        EngineFamily("llama"),
        EngineFamily("qwen2"),
        EngineFamily("qwen3"),
        EngineFamily("deepseek_v2"),
        EngineFamily("deepseek_v3"),
    )
}
"""Model type -> its row."""

IMAGE_MODALITIES = ("image", "vision_chunk")
"""vLLM's names of a still image."""
