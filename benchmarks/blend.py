"""CacheBlend as it would be served: tokens that go no further are run no further.

`kamera.arms.CacheBlend` decides in each layer which tokens keep their fresh KV, and is right in its answers,
but lets every token run to the end: its time says nothing. Here the rows that a layer drops leave the
forward. Which they are is the arm's own rule (`counts`, `deviations`); a test compares the KV of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from kamera.arms.cacheblend import counts, deviations
from kamera.engines.hf.backbone import Backbone
from kamera.engines.hf.recompute import row_mask

NO_CHECK = -1


class Narrowing:
    """Writes fresh rows into the held KV layer by layer, and drops rows behind the check layer.

    Attributes:
        going: where in the window the rows of the present layer stand.
        token_layers: rows that ran, counted once for each layer.
    """

    def __init__(self, cache: Any, going: Tensor, wanted: Sequence[int], check_layer: int) -> None:
        self.going, self.token_layers = going, 0
        self._cache, self._wanted, self._check_layer = cache, wanted, check_layer
        self._best: Tensor | None = None  # of the present layer's rows, those that go on
        self._kept: Tensor | None = None  # of all rows, those of the present layer

    def update(
        self, first: Tensor, second: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Takes the cache's place: compare the fresh rows [1, H, R, D] with what is held, overwrite it."""
        held = self._cache.layers[layer]
        if self._check_layer <= layer < len(self._wanted) - 1:
            fresh, before = (
                {"first": a.transpose(1, 2)[0], "second": b.transpose(1, 2)[0]}
                for a, b in (
                    (first, second),
                    (held.keys[:, :, self.going], held.values[:, :, self.going]),
                )
            )
            order = deviations(fresh, before).argsort(descending=True, stable=True)
            self._best = order[: self._wanted[layer + 1]].sort().values
        held.keys.index_copy_(2, self.going, first)
        held.values.index_copy_(2, self.going, second)
        self.token_layers += len(self.going)
        return held.keys, held.values

    def before_layer(self, _: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A layer's inputs, which the decoder makes once for all rows, for those that go on."""
        hidden = args[0]
        if self._best is not None:
            hidden, self.going = hidden[:, self._best], self.going[self._best]
            self._kept = self._best if self._kept is None else self._kept[self._best]
            self._best = None
        if self._kept is not None:
            rows = self._kept
            cos, sin = kwargs["position_embeddings"]
            positions = kwargs["position_ids"]
            kwargs = {
                **kwargs,
                "position_embeddings": (cos[..., rows, :], sin[..., rows, :]),
                "position_ids": None if positions is None else positions[..., rows],
                "attention_mask": kwargs["attention_mask"][:, :, rows],
            }
        return (hidden, *args[1:]), kwargs


@torch.inference_mode()
def blend(
    backbone: Backbone,
    token_ids: Sequence[int],
    positions: Tensor,
    media: Tensor | None,
    cache: Any,
    *,
    first: int,
    share: float,
    check_layer: int = 1,
) -> Narrowing:
    """Recompute `share` of the tokens from `first` on in context, in the layers behind the check layer.

    Args:
        token_ids, positions, media: of the whole window, T tokens.
        cache: its placed KV as the model's cache, T tokens; written to.
        first: tokens in front of it are exact and aren't recomputed.
        check_layer: up to it all tokens run. `NO_CHECK`: tokens of this share, evenly spaced, run through all
            layers.
    """
    num_tokens, num_layers = len(token_ids), len(backbone.decoder.layers)
    going = torch.arange(first, num_tokens)
    if check_layer == NO_CHECK:
        going = going[torch.linspace(0, len(going) - 1, round(share * len(going))).long()]
        check_layer = num_layers
    wanted = counts(len(going), share, num_layers, check_layer)
    rows = Narrowing(cache, going, wanted, check_layer)
    is_media = backbone.is_media(token_ids)
    chosen = media
    if media is not None:
        among = torch.zeros(num_tokens, dtype=torch.bool)
        among[going] = True
        chosen = media[among[is_media]]
    with _in_place(backbone, cache, rows):
        backbone.forward(
            [token_ids[i] for i in going.tolist()],
            positions[going],
            cache,
            chosen,
            mask=row_mask(backbone, is_media, going),
        )
    return rows


@contextmanager
def _in_place(backbone: Backbone, cache: Any, rows: Narrowing) -> Iterator[None]:
    cache.update = rows.update  # hides the class's own
    with ExitStack() as stack:
        stack.callback(delattr, cache, "update")
        for layer in backbone.decoder.layers:
            hook = layer.register_forward_pre_hook(rows.before_layer, with_kwargs=True)
            stack.callback(hook.remove)
        yield
