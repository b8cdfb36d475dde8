"""CacheBlend: the tokens whose KV deviates most in an early layer are recomputed, fewer layer by layer.

Yao et al., "CacheBlend: Fast Large Language Model Serving for RAG with Cached Knowledge Fusion" (EuroSys
2025), sections 4.2 and 4.3. All tokens run through the layers up to the check layer (1, the second: in
the first, KV depends on the token alone). There the highest KV deviation (HKVD) decides which go on, a
little more than the share; in every later layer those that go on are compared again and the share falls
(gradual filtering), so that its mean over the layers behind the check is the share that was asked for.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kamera.arms.budget import Share
from kamera.arms.laid_out import LaidOut
from kamera.arms.token_arm import Choice, TokenArm
from kamera.arms.workbench import Workbench
from kamera.engines.contract import LayerRows

SPREAD = 1 / 3
"""How far above the share the first filter lies, and the last below it, as a part of the share."""


class CacheBlend(TokenArm):
    """HKVD from layer `check_layer` with gradual filtering. A share of 1: re-prefill."""

    label = "cacheblend"

    def __init__(self, bench: Workbench, share: float = 0.15, check_layer: int = 1) -> None:
        super().__init__(bench, Share(share))
        self.share, self.check_layer = share, check_layer

    def choose(self, window: LaidOut) -> Choice:
        """Nothing is chosen ahead: the layers choose as they come."""
        return Filter(window, self.share, self.check_layer)


class Filter(Choice):
    """Keeps the tokens of highest deviation among those that the layer below kept."""

    def __init__(self, window: LaidOut, share: float, check_layer: int) -> None:
        num_layers = window.blind.num_layers
        super().__init__(window.behind.expand(num_layers, -1))
        self.check_layer = check_layer
        self._counts = counts(int(window.behind.sum()), share, num_layers, check_layer)
        self._going = torch.ones(int(self.rows.sum()), dtype=torch.bool)

    def keep(self, layer: int, fresh: LayerRows, held: LayerRows) -> Tensor:
        """All up to the check layer; behind it, fewer in each.

        What was compared in a layer is known there in full, so its filter takes effect in the next.
        """
        kept = self._going.clone()
        if layer >= self.check_layer:
            deviation = deviations(fresh, held).cpu().masked_fill(~kept, -torch.inf)
            count = self._counts[min(layer + 1, len(self._counts) - 1)]
            best = deviation.argsort(descending=True, stable=True)[:count]
            self._going = torch.zeros_like(kept)
            self._going[best] = True
        return kept


def counts(num_tokens: int, share: float, num_layers: int, check_layer: int) -> list[int]:
    """Tokens that go through each layer: all up to the check, then a falling share whose mean is `share`."""
    later = num_layers - check_layer - 1
    spread = min(SPREAD, (1 - share) / share) if share > 0 else 0.0
    found = [num_tokens] * min(check_layer + 1, num_layers)
    for step in range(later):
        tilt = 1 - 2 * step / (later - 1) if later > 1 else 0.0
        found.append(min(num_tokens, math.ceil(share * (1 + spread * tilt) * num_tokens - 1e-9)))
    return found


def deviations(fresh: LayerRows, held: LayerRows) -> Tensor:
    """[R]: squared distance of the fresh KV from the held, over all channels."""
    per_channel = [(fresh[n].float() - held[n].float()).square().sum((1, 2)) for n in fresh]
    return torch.stack(per_channel).sum(0)
