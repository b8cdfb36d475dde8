"""Water-filling: against every other choice of ranks, and at its edges."""

import itertools

import pytest
import torch

from kamera.errors import ConfigError
from kamera.patch.ranks import spread_ranks


def kept(sigma, ranks):
    return sum(
        float(sigma[name][layer, :rank].double().square().sum())
        for name, per_layer in ranks.items()
        for layer, rank in enumerate(per_layer)
    )


def spent(ranks, each):
    return sum(each[name] * sum(per_layer) for name, per_layer in ranks.items())


def make_sigma(seed, layers=2, width=3):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.rand(layers, width, generator=generator).sort(dim=1, descending=True).values
        for name in ("k", "v")
    }


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("budget", [0, 1, 10, 25, 33, 1000])
def test_no_choice_of_the_bytes_that_were_spent_keeps_more(seed, budget):
    sigma, each = make_sigma(seed), {"k": 5, "v": 8}
    ranks = spread_ranks(sigma, each, budget=budget)
    assert spent(ranks, each) <= budget
    for choice in itertools.product(range(4), repeat=4):
        other = {"k": choice[:2], "v": choice[2:]}
        if spent(other, each) <= spent(ranks, each):
            assert kept(sigma, other) <= kept(sigma, ranks) + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_one_more_direction_would_not_fit(seed):
    sigma, each = make_sigma(seed), {"k": 5, "v": 5}
    ranks = spread_ranks(sigma, each, budget=32)
    assert spent(ranks, each) == 30


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0.3, 0.8, 0.99])
def test_an_energy_share_is_reached_and_not_overshot(seed, share):
    sigma, each = make_sigma(seed), {"k": 5, "v": 5}
    everything = kept(sigma, {"k": (3, 3), "v": (3, 3)})
    ranks = spread_ranks(sigma, each, energy=share)
    assert kept(sigma, ranks) >= share * everything - 1e-9
    for name, layer in itertools.product(ranks, range(2)):
        fewer = {n: list(r) for n, r in ranks.items()}
        fewer[name][layer] -= 1
        if fewer[name][layer] >= 0 and kept(sigma, fewer) >= share * everything + 1e-9:
            # Only a direction better for its bytes than the last one taken can be spared.
            taken = [float(sigma[n][i, r - 1]) for n in ranks for i, r in enumerate(ranks[n]) if r]
            assert float(sigma[name][layer, ranks[name][layer] - 1]) > min(taken)


def test_weights_decide_between_channels():
    sigma = {"k": torch.tensor([[2.0, 1.0]]), "v": torch.tensor([[1.5, 1.0]])}
    each = {"k": 1, "v": 1}
    assert spread_ranks(sigma, each, budget=2) == {"k": (1,), "v": (1,)}
    weights = {"k": torch.tensor([0.1]), "v": torch.tensor([1.0])}
    assert spread_ranks(sigma, each, budget=2, weights=weights) == {"k": (0,), "v": (2,)}


def test_energy_is_a_share_of_all_that_there_is_and_not_of_what_was_fitted():
    sigma = {"k": torch.tensor([[1.0, 0.5]]), "v": torch.tensor([[1.0, 0.5]])}
    each, totals = {"k": 1, "v": 1}, {"k": torch.tensor([9.0]), "v": torch.tensor([9.0])}
    assert spread_ranks(sigma, each, energy=0.5) == {"k": (1,), "v": (1,)}
    assert spread_ranks(sigma, each, energy=0.5, totals=totals) == {"k": (2,), "v": (2,)}


def test_what_can_not_be_is_refused():
    sigma = make_sigma(0)
    with pytest.raises(ConfigError, match="bytes_each"):
        spread_ranks(sigma, {"k": 1})
    with pytest.raises(ConfigError, match="budget"):
        spread_ranks(sigma, {"k": 1, "v": 1}, budget=-1)
    with pytest.raises(ConfigError, match="share from 0 to 1"):
        spread_ranks(sigma, {"k": 1, "v": 1}, energy=1.5)
