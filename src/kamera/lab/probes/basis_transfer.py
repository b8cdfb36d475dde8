"""Are the directions of Δ the model's own? A basis learned on some items or tasks, tried on others.

Paper section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.lab.metrics import eta, kl
from kamera.lab.probes.case import Case
from kamera.patch import Deficits, Factors, Patch, form_patch

Basis = dict[str, Tensor]
"""Channel name -> orthonormal directions, float32 [L, M, F]."""

OWN = "own"
"""Each item's own SVD, in place of a learned basis."""


@dataclass(frozen=True)
class BasisTransfer:
    """Learned on -> tested on -> figure; learned on `own` is the item's own SVD at the same rank.

    Attributes:
        energy: share of ‖Δ‖² of the tested items that lies in the basis; layers and channels added up.
        eta: of the tested items with Δ projected on the basis; None without a gap.
        rank: M.
        n: tested on -> items.
    """

    energy: dict[str, dict[str, float]]
    eta: dict[str, dict[str, float | None]]
    rank: int
    n: dict[str, int]


def learn_basis(cases: Iterable[Case], rank: int) -> Basis:
    """The top `rank` directions of the pooled deficits of these cases, by channel and layer."""
    grams: dict[str, Tensor] = {}
    for case in cases:
        for name, delta in case.delta().items():
            wide = delta.double()
            grams[name] = grams.get(name, 0) + wide.mT @ wide
    return {name: _top_directions(gram, rank) for name, gram in grams.items()}


def probe_basis_transfer(
    bases: Mapping[str, Basis], tested: Mapping[str, Iterable[Case]]
) -> BasisTransfer:
    """Every basis on every set of cases. The bases have one rank; the cases aren't those they come from."""
    rank = next(iter(next(iter(bases.values())).values())).shape[1]
    energy: dict[str, dict[str, float]] = {key: {} for key in (*bases, OWN)}
    etas: dict[str, dict[str, float | None]] = {key: {} for key in energy}
    num: dict[str, int] = {}
    for name, cases in tested.items():
        blind: list[float] = []
        found: dict[str, list[tuple[float, float, float]]] = {key: [] for key in energy}
        for case in cases:
            delta, reference = case.delta(), case.reference()
            blind.append(kl(case.with_patch(None), reference))
            patches = {key: project(delta, basis) for key, basis in bases.items()}
            patches[OWN] = form_patch(delta, OWN, rank)
            for key, patch in patches.items():
                kept, whole = _energies(delta, patch)
                found[key].append((kl(case.with_patch(patch), reference), kept, whole))
        num[name] = len(blind)
        for key, rows in found.items():
            energy[key][name] = _sum(rows, 1) / _sum(rows, 2)
            etas[key][name] = eta([row[0] for row in rows], blind)
    return BasisTransfer(energy, etas, rank, num)


def project(delta: Deficits, basis: Basis) -> Patch:
    """Δ's projection on the basis, as a patch: coefficients of the item, directions of the basis."""
    factors = {}
    for name, rows in delta.items():
        directions = basis[name].to(rows.device)
        factors[name] = Factors((rows @ directions.mT).contiguous(), directions)
    return Patch(factors, "shared basis")


def _top_directions(gram: Float[Tensor, "L F F"], rank: int) -> Float[Tensor, "L M F"]:
    vectors: Tensor = torch.linalg.eigh(gram).eigenvectors  # eigenvalues ascend
    return vectors.flip(-1)[..., :rank].mT.float().contiguous()


def _energies(delta: Deficits, patch: Patch) -> tuple[float, float]:
    """‖projection‖² and ‖Δ‖², all layers and channels."""
    kept = sum(float(f.product(torch.float64).square().sum()) for f in patch.factors.values())
    return kept, sum(float(rows.double().square().sum()) for rows in delta.values())


def _sum(rows: Sequence[tuple[float, float, float]], index: int) -> float:
    return sum(row[index] for row in rows)
