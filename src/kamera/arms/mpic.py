"""MPIC: all text tokens and the first k tokens of every image are recomputed.

Zhao et al., "MPIC: Position-Independent Multimodal Context Caching System for Efficient MLLM Serving"
(arXiv 2502.01960): the text is always recomputed, an image's KV is reused but for its first k tokens.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from kamera.arms.laid_out import LaidOut
from kamera.arms.token_arm import Choice, TokenArm, in_all_layers


class Mpic(TokenArm):
    """Text and the first k of each image; wrapper tokens are text. All of every image: re-prefill."""

    label = "mpic"

    def choose(self, window: LaidOut) -> Choice:
        """Text behind the leading chunk, and each media item's first k tokens."""
        is_media = torch.cat([self.bench.open.is_media(chunk).cpu() for chunk in window.chunks])
        rows = window.behind & ~is_media
        for start, end in window.spans[1:]:
            count = self.budget.tokens(end - start, window.features)
            rows[start:end] |= first_media(is_media[start:end], count)
        return in_all_layers(window, rows)


def first_media(is_media: Bool[Tensor, " T"], count: int) -> Bool[Tensor, " T"]:
    """A chunk's first `count` media tokens."""
    return is_media & (is_media.cumsum(0) <= count)
