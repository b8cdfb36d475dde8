"""Dimension letters and tensor aliases, the same in every signature.

L layers, T tokens, H KV heads, Q query heads, D head size, F = H·D features, R rotary dims,
N = R/2 rotated pairs, C MLA latent, M patch rank, P position axes (1, or 3 for t, h, w).
"""

from jaxtyping import Float, Int
from torch import Tensor

LayerStack = Float[Tensor, "L T H D"]
"""One channel of a chunk's KV, all layers: what the store keeps and the operator reads."""

Deficit = Float[Tensor, "L T F"]
"""Δ of one channel, heads flattened into features, float32."""

Positions = Int[Tensor, "T P"]
"""Rotary positions of each token on each axis (t, h, w for M-RoPE), int64."""

__all__ = ["Deficit", "LayerStack", "Positions"]
