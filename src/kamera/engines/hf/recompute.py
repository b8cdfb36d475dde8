"""Recompute some of a window's tokens in context: each layer reads KV that already holds their new rows.

The strongest form of what CacheBlend does. The chosen tokens run through the model's own forward; in every
layer their K and V are put into the held KV before attention reads it, so that tokens behind them, and the
layers above, see what was recomputed and hold on to the rest. With every token chosen this is re-prefill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.engines.contract import KeepRows, Observe
from kamera.engines.hf import cache as kv_cache
from kamera.engines.hf.attention import observed
from kamera.engines.hf.backbone import Backbone
from kamera.errors import ConfigError
from kamera.shapes import Positions


class Rows:
    """A cache's `update` that writes into chosen rows of what is held.

    Attributes:
        written: [L, R], which of the rows that are run kept their fresh KV, by layer.
    """

    def __init__(self, backbone: Backbone, held: ChunkKV, rows: Tensor, keep: KeepRows) -> None:
        self.cache = kv_cache.write(held, backbone.channels)
        self.cache.update = self.update  # the model calls it layer by layer
        self._rows, self._keep = rows, keep
        self._names = [channel.name for channel in backbone.channels]
        self.written = torch.zeros(held.num_layers, len(rows), dtype=torch.bool, device=rows.device)

    def update(
        self, first: Tensor, second: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Put the fresh rows in that are to be kept; give the whole of this layer's KV.

        Args:
            first, second: the two channels of the rows that are run, [1, H, R, D].
            layer: which layer asks.
        """
        held = self.cache.layers[layer]
        fresh = {name: t[0].transpose(0, 1) for name, t in self._named(first, second).items()}
        before = {
            name: t[0, :, self._rows].transpose(0, 1)
            for name, t in self._named(held.keys, held.values).items()
        }
        kept = self._keep(layer, fresh, before).to(self._rows.device)
        self.written[layer] = kept
        into = self._rows[kept]
        held.keys = held.keys.index_copy(2, into, first[:, :, kept])
        held.values = held.values.index_copy(2, into, second[:, :, kept])
        return held.keys, held.values

    def _named(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        return dict(zip(self._names, (first, second), strict=True))


@torch.inference_mode()
def recompute(
    backbone: Backbone,
    token_ids: Sequence[int],
    positions: Positions,
    media: Tensor | None,
    held: ChunkKV,
    rows: Bool[Tensor, " T"],
    keep: KeepRows,
    *,
    inputs: tuple[int, Float[Tensor, "R hidden"]] | None = None,
    observe: Observe | None = None,
) -> tuple[ChunkKV, Bool[Tensor, "L R"]]:
    """Run the tokens of `rows` in context and write back what `keep` chooses.

    Args:
        token_ids, positions, media: of the whole window, T tokens; media for all of its placeholders.
        held: the window's placed KV; not written to.
        rows: the tokens that are run through all layers.
        keep: says for each layer, as it comes, which of them keep their fresh K and V.
        inputs: (layer, hidden states): what that layer is given in place of what the layers below made.
        observe: called in each layer with its attention weights.

    Returns:
        The window's KV, and which of the R rows were written in each layer.

    Raises:
        ConfigError: KV, positions or embeddings that aren't of this window.
    """
    is_media = backbone.is_media(token_ids)
    _check(token_ids, positions, is_media, media, held)
    index = rows.nonzero()[:, 0].to(backbone.device)
    writer = Rows(backbone, held, index, keep)
    if not len(index):
        return held, writer.written
    chosen = None if media is None else media[rows[is_media.to(rows.device)].to(media.device)]
    with ExitStack() as stack:
        if inputs is not None:
            stack.enter_context(_given(backbone, *inputs))
        if observe is not None:
            stack.enter_context(observed(backbone, observe))
        backbone.forward(
            [token_ids[i] for i in index.tolist()],
            positions[index.to(positions.device)],
            writer.cache,
            chosen if chosen is not None and len(chosen) else None,
            mask=row_mask(backbone, is_media, index),
        )
    return kv_cache.read(writer.cache, 0, backbone.channels), writer.written


@torch.inference_mode()
def layer_inputs(
    backbone: Backbone,
    token_ids: Sequence[int],
    positions: Positions,
    media: Tensor | None,
    layer: int,
) -> Float[Tensor, "T hidden"]:
    """The hidden states that reach `layer` in a prefill of these tokens alone.

    RoPE is relative, so that they are the same wherever the tokens stand, up to rounding.
    """
    found: list[Tensor] = []

    def look(_: Any, args: Any, kwargs: Any) -> None:
        found.append(args[0] if args else kwargs["hidden_states"])

    hook = backbone.decoder.layers[layer].register_forward_pre_hook(look, with_kwargs=True)
    try:
        backbone.prefill(list(token_ids), positions, media)
    finally:
        hook.remove()
    return found[0][0].clone()


@contextmanager
def _given(backbone: Backbone, layer: int, hidden: Tensor) -> Iterator[None]:
    """Inside, `layer` is given these hidden states [R, hidden]."""

    def swap(_: Any, args: Any, kwargs: Any) -> Any:
        wanted = hidden[None]
        return (
            ((wanted, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": wanted})
        )

    hook = backbone.decoder.layers[layer].register_forward_pre_hook(swap, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def row_mask(
    backbone: Backbone, is_media: Bool[Tensor, " T"], index: Int[Tensor, " R"]
) -> Tensor | dict[str, Tensor]:
    """What the chosen rows see of the window, to add to scores: [1, 1, R, T]; one a type of layers.

    All that is before them and themselves; where a media item's tokens see one another, the rest of it.
    """
    steps = torch.arange(len(is_media), device=index.device)
    causal = steps <= index[:, None]
    config = backbone.text_config
    item = torch.zeros_like(causal)
    if backbone.family.sees_ahead:
        run = torch.cumsum(~is_media, 0)  # tokens of one item share its count
        item = is_media[index][:, None] & is_media & (run[index][:, None] == run)
    if "sliding_attention" not in set(getattr(config, "layer_types", None) or ()):
        return _scores(causal | item, backbone)
    # Backwards alone: an image longer than the window sees its own end, and not its start.
    near = steps > index[:, None] - config.sliding_window
    return {
        "full_attention": _scores(causal | item, backbone),
        "sliding_attention": _scores((causal | item) & near, backbone),
    }


def _scores(allowed: Tensor, backbone: Backbone) -> Tensor:
    dtype = backbone.model.dtype
    scores = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return scores.masked_fill(~allowed, torch.finfo(dtype).min)[None, None]


def _check(
    token_ids: Sequence[int],
    positions: Tensor,
    is_media: Tensor,
    media: Tensor | None,
    held: ChunkKV,
) -> None:
    wanted = len(token_ids)
    if (len(positions), held.num_tokens) != (wanted, wanted):
        raise ConfigError(
            f"Can't recompute in a window of {wanted} tokens: expected a position and held KV for each, "
            f"got {len(positions)} and {held.num_tokens}"
        )
    if int(is_media.sum()) != (0 if media is None else len(media)):
        raise ConfigError(
            f"{0 if media is None else len(media)} media embeddings for {int(is_media.sum())} "
            "placeholder tokens of the window: expected one for each"
        )
