"""Bytes of a patch over those of the KV that it belongs to, counted from shapes: no model is needed.

A rank-m patch keeps m · (T + F) numbers of a channel of T tokens and F features, KV keeps T · F. Layers and
bytes a number cancel.
"""

from __future__ import annotations

from collections.abc import Sequence

GQA = (512, 512)
"""F of K and V in Qwen2.5-VL-7B: 4 KV heads of 128."""
LATENT = (512, 64)
"""MLA's cached latent and rotary key (Kimi-VL-A3B)."""
PER_HEAD = (16 * (128 + 64), 16 * 128)
"""K and V of the same MLA layer spread out by head: 16 heads, keys of 128 + 64, values of 128."""
TABLE_TOKENS = 480
"""At GQA's shape rank 16 costs 31 tokens and rank 64 costs 124 (Table 6) of so many."""
FIGURE_TOKENS = 1056
"""At so many, 27 layers of per-head K and V in bf16 are Figure 11's 292 MB, a rank-16 patch its 6.2 MB."""
NUM_LAYERS = 27
BYTES = 2


def share(rank: int, num_tokens: int, features: Sequence[int]) -> float:
    """Bytes of a rank-m patch over its KV's; m clipped to a channel's full rank."""
    return patch_numbers(rank, num_tokens, features) / (num_tokens * sum(features))


def patch_numbers(rank: int, num_tokens: int, features: Sequence[int]) -> int:
    """Numbers that a rank-m patch keeps of one layer."""
    return sum(min(rank, num_tokens, f) * (num_tokens + f) for f in features)


def sharing(num_contexts: int, patch_share: float) -> float:
    """How many times less is kept when N contexts share one canonical and have a patch each (Figure 11c)."""
    return num_contexts / (1.0 + num_contexts * patch_share)
