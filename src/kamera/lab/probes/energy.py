"""Where is the deficit's energy? Singular values of Δ, layer by layer (paper Figure 3a, Table 7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.lab.probes.case import Case

NOISE = 4.0
"""In units of the dtype's eps: a layer whose ‖Δ‖ is below this share of ‖KV‖ absorbed nothing."""


@dataclass(frozen=True)
class Energy:
    """One channel of Δ, mean over the cases.

    Attributes:
        curve: by layer, the share of ‖Δ‖² in the top m components, for m = 1 to the full rank.
        e90: by layer, components that hold 90 %; None where Δ is no more than rounding.
        e90_share: mean of e90 / n_B over the other layers, n_B the tokens of B: the figure of Table 7.
        n: cases.
    """

    curve: tuple[tuple[float, ...], ...]
    e90: tuple[float | None, ...]
    e90_share: float | None
    n: int


def probe_energy(cases: Iterable[Case]) -> dict[str, Energy]:
    """Channel name -> energy. Cases may differ in B's tokens: curves are cut at the shortest."""
    curves: dict[str, list[Tensor]] = {}
    absorbed: dict[str, list[Tensor]] = {}
    tokens = []
    for case in cases:
        tokens.append(case.chunk.num_tokens)
        conditioned = case.conditioned().tensors
        for name, delta in case.delta().items():
            curves.setdefault(name, []).append(energy_curve(delta))
            size = delta.norm(dim=(1, 2)) / conditioned[name].flatten(1).norm(dim=1)
            floor = NOISE * torch.finfo(case.bench.canonical(case.chunk).dtype).eps
            absorbed.setdefault(name, []).append(size > floor)
    return {name: _energy(curves[name], absorbed[name], tokens) for name in curves}


def energy_curve(delta: Float[Tensor, "L T F"]) -> Float[Tensor, "L M"]:
    """Share of each layer's ‖Δ‖² in its top m components, float64; 1 throughout where Δ is zero."""
    energy = torch.linalg.svdvals(delta.double()).square().cumsum(-1)
    total = energy[:, -1:]
    return torch.where(total > 0, energy / total, torch.ones_like(energy))


def components_for(curve: Float[Tensor, "L M"], share: float = 0.9) -> Float[Tensor, " L"]:
    """The fewest components of each layer that hold `share` of the energy; at least 1."""
    return (curve < share).sum(-1).double() + 1


def _energy(curves: list[Tensor], absorbed: list[Tensor], tokens: list[int]) -> Energy:
    shortest = min(curve.shape[1] for curve in curves)
    mean = torch.stack([curve[:, :shortest] for curve in curves]).mean(0)
    needed = torch.stack([components_for(curve) for curve in curves])
    shares = needed / torch.tensor(tokens, dtype=torch.float64, device=needed.device)[:, None]
    real = torch.stack(absorbed).any(0)
    return Energy(
        tuple(tuple(layer) for layer in mean.tolist()),
        tuple(
            e if r else None for e, r in zip(needed.mean(0).tolist(), real.tolist(), strict=True)
        ),
        float(shares[:, real].mean()) if bool(real.any()) else None,
        len(curves),
    )
