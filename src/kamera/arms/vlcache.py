"""VLCache: the first tokens of every image are recomputed, more of them in the layers that matter more.

Qin et al., "VLCache: Computing 2% Vision Tokens and Reusing 98% for Vision-Language Inference" (arXiv
2512.12977): a reused token's error is passed on to all behind it, so an image's first tokens go first;
and the layers differ in importance, so each has a share of its own, found once for a model. The text is
always computed.

Here a layer's importance is the KL at the answer when this layer alone is left blind in an otherwise
exact window, over the windows of `learn`. A token must have passed all layers below the one that it is
recomputed in, so a layer counts as much as the most important one at or above it: shares never rise with
depth, and their mean is the work on the path. The paper under test used uniform shares (its Table 5).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from kamera.arms.budget import Share
from kamera.arms.contract import ArmRequest
from kamera.arms.laid_out import LaidOut
from kamera.arms.mpic import first_media
from kamera.arms.token_arm import Choice, TokenArm
from kamera.arms.workbench import Workbench
from kamera.channels import ChunkKV


class VLCache(TokenArm):
    """A share of each image, uniform or by layer. A share of 1: re-prefill."""

    label = "vlcache"

    def __init__(self, bench: Workbench, share: float = 0.10, *, by_layer: bool = False) -> None:
        super().__init__(bench, Share(share))
        self.share, self.by_layer = share, by_layer
        if by_layer:
            self.name += " by layer"
        self._importance: Tensor | None = None

    def learn(self, requests: Sequence[ArmRequest]) -> None:
        """Profile the layers; without it every layer gets the same."""
        if self.by_layer and requests:
            profiles = [layer_importance(self.bench, request) for request in requests]
            mean = torch.stack(profiles).mean(0)
            self._importance = mean.flip(0).cummax(0).values.flip(0)

    def choose(self, window: LaidOut) -> Choice:
        """Text in every layer, and a share of each image's first tokens that the layer decides."""
        is_media = torch.cat([self.bench.open.is_media(chunk).cpu() for chunk in window.chunks])
        num_layers = window.blind.num_layers
        importance = torch.ones(num_layers) if self._importance is None else self._importance
        kept = [self._rows(window, is_media, share) for share in spread(importance, self.share)]
        return Choice(torch.stack(kept))

    def _rows(self, window: LaidOut, is_media: Tensor, share: float) -> Bool[Tensor, " T"]:
        rows = window.behind & ~is_media
        for start, end in window.spans[1:]:
            media = is_media[start:end]
            count = Share(share).tokens(int(media.sum()), window.features)
            rows[start:end] |= first_media(media, count)
        return rows


def layer_importance(bench: Workbench, request: ArmRequest) -> Tensor:
    """[L]: KL to re-prefill of an exact window in which one layer is blind."""
    exact, blind = bench.full(request.cached).kv, bench.blind(request.cached)
    reference = bench.finish(request, exact).logits.double().log_softmax(-1)
    found = []
    for layer in range(exact.num_layers):
        tensors = {name: tensor.clone() for name, tensor in exact.tensors.items()}
        for name, tensor in tensors.items():
            tensor[layer] = blind.tensors[name][layer]
        got = bench.finish(request, ChunkKV(tensors)).logits.double().log_softmax(-1)
        found.append((reference.exp() * (reference - got)).sum().clamp_min(0.0))
    return torch.stack(found).cpu()


def spread(importance: Tensor, share: float) -> list[float]:
    """Shares of the layers, in proportion to their importance, none above 1, with the mean `share`.

    What a full layer can't take goes to the others. Where nothing matters, all get the same.
    """
    weights = importance.double().clamp_min(0.0)
    weights = weights if float(weights.sum()) > 0 else torch.ones_like(weights)
    shares = torch.zeros_like(weights)
    left, is_open = share * len(weights), torch.ones_like(weights, dtype=torch.bool)
    for _ in range(len(weights)):
        total = float(weights[is_open].sum())
        if left <= 0 or not bool(is_open.any()):
            break
        wanted = weights / total if total > 0 else is_open / int(is_open.sum())
        shares[is_open] = (left * wanted)[is_open]
        full = is_open & (shares >= 1.0)
        if not bool(full.any()):
            break
        shares[full] = 1.0
        left -= int(full.sum())
        is_open &= ~full
    return [min(float(value), 1.0) for value in shares]
