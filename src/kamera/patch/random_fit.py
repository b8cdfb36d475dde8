"""Fit a deficit from a random sketch of it: a few thin products in place of a Gram matrix's eigenvectors.

Halko, Martinsson, Tropp, "Finding structure with randomness" (2011), algorithms 4.4 and 5.1: the range
finder with power iterations, then the small exact problem inside that range.
"""

import torch
from torch import Tensor

from kamera.patch.factors import Factors
from kamera.patch.fit import checked_rank, fit_gram, top_eigenvectors
from kamera.shapes import Deficit

OVERSAMPLING = 8
"""Directions more than are kept, at the least; half the rank when that is more."""
POWER_ITERATIONS = 2
WORTH_IT = 4
"""How many times the sketch's width the smaller side of Δ must be; below, the Gram route is as fast."""
SEED = 0


def fit_fast(delta: Deficit, rank: int | None = None) -> Factors:
    """`fit_random` where the rank is far below full, else `fit_gram`. Arguments, errors as `fit_svd`."""
    rank = checked_rank(delta, rank)
    if min(delta.shape[1:]) < WORTH_IT * _width(rank):
        return fit_gram(delta, rank)
    return fit_random(delta, rank)


def fit_random(delta: Deficit, rank: int | None = None) -> Factors:
    """The top-`rank` directions of each layer, nearly; float32 factors, the same ones each time.

    U Σ Vᵀ is an orthogonal projection of Δ on a subspace of its range, as the SVD's is, so that its energy
    can only be short of the optimum, by what of the top directions the sketch missed. Two power iterations
    shrink that by the fifth power of the singular values' ratio (Halko et al., corollary 10.10): where Δ
    falls off, to nothing; where it is flat, directions that are mistaken for each other are worth the same.
    At full rank the sketch's range is the whole of Δ's, to float32.

    Products are float32, the small problem float64. Arguments and errors as in `fit_svd`.
    """
    rank = checked_rank(delta, rank)
    scale = delta.abs().amax(dim=(1, 2), keepdim=True)  # powers of a tiny or a huge Δ leave float32
    scaled = delta / torch.where(scale > 0, scale, torch.ones_like(scale))
    basis = _range(scaled, min(_width(rank), *delta.shape[1:]))
    inside = (basis.mT @ scaled).double()
    turned = top_eigenvectors(inside @ inside.mT, rank)
    rows = turned.mT @ inside
    sigma = rows.norm(dim=-1)
    vt = rows / torch.where(sigma > 0, sigma, torch.ones_like(sigma))[..., None]
    u = (basis.double() @ turned) * (sigma[:, None, :] * scale.double())
    return Factors(u.float().contiguous(), vt.float().contiguous())


def _width(rank: int) -> int:
    """Columns of the sketch."""
    return rank + max(OVERSAMPLING, rank // 2)


def _range(delta: Tensor, width: int) -> Tensor:
    """An orthonormal basis [L, T, S] of nearly the top of Δ's column space."""
    generator = torch.Generator().manual_seed(SEED)
    sketch = torch.randn(delta.shape[2], width, generator=generator).to(delta.device)
    basis = _orthonormal(delta @ sketch)
    for _ in range(POWER_ITERATIONS):
        basis = _orthonormal(delta @ _orthonormal(delta.mT @ basis))
    return basis


def _orthonormal(columns: Tensor) -> Tensor:
    basis: Tensor = torch.linalg.qr(columns).Q
    return basis
