"""Fit a deficit: its best rank-m approximation in energy (paper §3, App. A).

Two ways to the same factors. `fit_svd` is the textbook and the reference. `fit_gram` is the one in
use: it takes the eigenvectors of the smaller Gram matrix, min(T, F) on a side, and projects Δ on
them, which is several times cheaper when T and F differ.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from kamera.errors import ConfigError
from kamera.patch.factors import Factors, Patch, PatchKind
from kamera.shapes import Deficit

Fit: TypeAlias = Callable[[Deficit, int | None], Factors]


def fit_svd(delta: Deficit, rank: int | None = None) -> Factors:
    """The top-`rank` SVD of each layer, by a full SVD in float64; float32 factors.

    Args:
        delta: Δ of one channel, [L, T, F], float32.
        rank: M; clipped to min(T, F), which is also what None means.

    Raises:
        ConfigError: rank < 1, or Δ that isn't finite or is empty.
    """
    rank = checked_rank(delta, rank)
    left, sigma, right = torch.linalg.svd(delta.double(), full_matrices=False)
    u = left[..., :rank] * sigma[:, None, :rank]
    return Factors(u.float().contiguous(), right[:, :rank].float().contiguous())


def fit_gram(delta: Deficit, rank: int | None = None) -> Factors:
    """The same factors from the Gram matrix of the smaller side; float32 factors.

    With orthonormal eigenvectors W of ΔΔᵀ (T <= F) the fit is W Wᵀ Δ; of ΔᵀΔ (T > F), Δ W Wᵀ:
    an orthogonal projection of Δ itself, so at full rank it gives back Δ to float32 rounding,
    however small the small singular values are. A Gram matrix squares the condition number: in
    float64 the directions are told apart down to about 1e-8 of the largest singular value, which
    is below the float32 rounding of Δ; in float32 it would be 3e-4, within reach of real tails.

    Σ is read off the projected rows, not off the eigenvalues, so that U Σ Vᵀ is the projection
    whatever the eigenvalues' own error. Arguments and errors as in `fit_svd`.
    """
    rank = checked_rank(delta, rank)
    wide = delta.double()
    if delta.shape[1] <= delta.shape[2]:
        basis = top_eigenvectors(wide @ wide.mT, rank)
        rows = basis.mT @ wide
        sigma = rows.norm(dim=-1)
        vt = rows / _nonzero(sigma)[..., None]
        u = basis * sigma[:, None, :]
    else:
        basis = top_eigenvectors(wide.mT @ wide, rank)
        u, vt = wide @ basis, basis.mT
    return Factors(u.float().contiguous(), vt.float().contiguous())


def form_patch(
    deltas: Mapping[str, Deficit],
    antecedent: str,
    rank: int | None = None,
    kind: PatchKind = "exact",
    *,
    fit: Fit = fit_gram,
    dtype: torch.dtype = torch.float32,
) -> Patch:
    """Fit every channel of a deficit at one rank and name the antecedent that it belongs to.

    Args:
        deltas: channel name -> Δ, from `deficit` or `mean_deficit`.
        antecedent: key of the antecedent that the patch is valid for.
        rank: M, clipped to each channel's full rank; None = full.
        kind: what the deficit is.
        fit: the fitting method.
        dtype: dtype of the stored factors; the fit itself is float64, rounded to float32.

    Raises:
        ConfigError: as `fit_svd` and `Patch`.
    """
    factors = {name: fit(delta, rank).to(dtype) for name, delta in deltas.items()}
    return Patch(factors, antecedent, kind)


def checked_rank(delta: Tensor, rank: int | None) -> int:
    """The rank, clipped to min(T, F); None is that. Errors as in `fit_svd`."""
    if delta.ndim != 3 or 0 in delta.shape:
        raise ConfigError(
            f"Invalid shape of delta: expected [L, T, F], none zero, got {list(delta.shape)}"
        )
    if rank is not None and rank < 1:
        raise ConfigError(f"Invalid rank: expected >= 1, or None for full rank, got {rank}")
    if not bool(torch.isfinite(delta).all()):
        raise ConfigError(
            "Invalid delta: expected finite values, got inf or nan; the forward that it came from "
            "overflowed"
        )
    full_rank = min(delta.shape[1:])
    return full_rank if rank is None else min(rank, full_rank)


def top_eigenvectors(gram: Tensor, rank: int) -> Tensor:
    """Eigenvectors of the `rank` largest eigenvalues, largest first: [L, S, S] -> [L, S, M]."""
    vectors: Tensor = torch.linalg.eigh(gram).eigenvectors  # eigenvalues ascend
    return vectors.flip(-1)[..., :rank]


def _nonzero(sigma: Tensor) -> Tensor:
    return torch.where(sigma > 0, sigma, torch.ones_like(sigma))
