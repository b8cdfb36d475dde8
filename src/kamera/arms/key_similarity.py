"""Key similarity: the tokens whose cached keys look most like a key of their antecedents are recomputed.

One of the paper's ruled-out estimators (Appendix B, caption of Table 2).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.arms.laid_out import LaidOut
from kamera.arms.token_arm import Choice, TokenArm, in_all_layers
from kamera.channels import ChunkKV


class KeySimilarity(TokenArm):
    """By the largest cosine with any antecedent's canonical key, mean over layers. All tokens: re-prefill."""

    label = "key similarity"

    def choose(self, window: LaidOut) -> Choice:
        """The highest over the whole window."""
        keys = [directions(self.bench.canonical(chunk)) for chunk in window.chunks]
        scores = [torch.zeros(window.chunks[0].num_tokens)]
        for index in range(1, len(keys)):
            before = torch.cat(keys[:index], dim=1)
            cosine = keys[index] @ before.transpose(1, 2)
            scores.append(cosine.amax(-1).mean(0).cpu())
        return in_all_layers(window, window.top(torch.cat(scores), window.budget(self.budget)))


def directions(canonical: ChunkKV) -> Float[Tensor, "L T F"]:
    """Un-rotated keys (k, or k_pe), all heads in one, of length 1."""
    name = next(channel.name for channel in canonical.channels if channel.rotates)
    flat = canonical.tensors[name].float().flatten(2)
    unit: Tensor = flat / flat.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    return unit
