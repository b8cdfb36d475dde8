"""A rank for each layer and channel: where a byte of factors buys most of the deficit."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.errors import ConfigError

Ranks = dict[str, tuple[int, ...]]
"""Channel name -> M_l of each layer."""


def spread_ranks(
    sigma: Mapping[str, Float[Tensor, "L _"]],
    bytes_each: Mapping[str, int],
    *,
    budget: int | None = None,
    energy: float | None = None,
    totals: Mapping[str, Float[Tensor, " L"]] | None = None,
    weights: Mapping[str, Float[Tensor, " L"]] | None = None,
) -> Ranks:
    """Water-filling: directions of all layers and channels, the most weighted σ² a byte first.

    A layer's directions fall in σ, so that the best ones overall are the first ones of each layer, and
    the greedy choice is the best one for the bytes that it takes.

    Args:
        sigma: channel name -> singular values, falling, [L, M]: those that are there to choose from.
        bytes_each: of one direction of a channel.
        budget: bytes that may be spent; None for no bound.
        energy: stop when this share of all weighted energy is kept; None for no stop.
        totals: channel name -> ‖Δ_l‖², what `energy` is a share of; by default what `sigma` has.
        weights: channel name -> what a layer's σ² counts; 1 by default.

    Raises:
        ConfigError: channels that differ, a negative budget or a share outside 0 to 1.
    """
    if set(sigma) != set(bytes_each):
        raise ConfigError(
            f"Invalid bytes_each: expected those of {sorted(sigma)}, got {sorted(bytes_each)}"
        )
    if budget is not None and budget < 0:
        raise ConfigError(f"Invalid budget: expected bytes >= 0, got {budget}")
    if energy is not None and not 0.0 <= energy <= 1.0:
        raise ConfigError(f"Invalid energy: expected a share from 0 to 1, got {energy}")
    names = sorted(sigma)
    gains = {name: sigma[name].double().square() * _column(weights, name) for name in names}
    gain = torch.cat([gains[name].flatten() for name in names])
    size = torch.cat([torch.full_like(gains[n].flatten(), bytes_each[n]) for n in names])
    order = (gain / size).argsort(descending=True, stable=True)
    take = torch.ones(len(order), dtype=torch.bool)
    if budget is not None:
        take &= (size[order].cumsum(0) <= budget).cpu()
    if energy is not None:
        all_gain = _all(gains, totals, weights)
        before = gain[order].cumsum(0) - gain[order]
        take &= (before < energy * all_gain).cpu()
    chosen = torch.zeros(len(order), dtype=torch.bool)
    chosen[order.cpu()] = take
    return _counted(chosen, gains)


def _column(weights: Mapping[str, Tensor] | None, name: str) -> Tensor:
    return torch.ones(1) if weights is None else weights[name].double()[:, None]


def _all(
    gains: Mapping[str, Tensor],
    totals: Mapping[str, Tensor] | None,
    weights: Mapping[str, Tensor] | None,
) -> float:
    if totals is None:
        return sum(float(gain.sum()) for gain in gains.values())
    return sum(float((totals[n].double()[:, None] * _column(weights, n)).sum()) for n in gains)


def _counted(chosen: Tensor, gains: Mapping[str, Tensor]) -> Ranks:
    ranks, start = {}, 0
    for name in sorted(gains):
        end = start + gains[name].numel()
        per_layer = chosen[start:end].view(gains[name].shape).sum(dim=1)
        ranks[name] = tuple(int(rank) for rank in per_layer)
        start = end
    return ranks
