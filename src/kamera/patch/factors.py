"""`Factors` (one channel) and `Patch` (all channels): the low-rank form of a deficit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.channels import channels_of
from kamera.errors import ConfigError

PatchKind = Literal["exact", "orbit", "removal"]
"""exact: one ordered antecedent; orbit: the mean over its orderings; removal: for a survivor."""


@dataclass(frozen=True, eq=False)
class Factors:
    """U_m V_mᵀ of one channel, all layers at one rank: Δ ≈ `u @ vt` (paper Eq. 1, App. A).

    Attributes:
        u: UΣ, [L, T, M]: each token's coefficients.
        vt: Vᵀ, [L, M, F]: the feature directions, F = H·D.

    Raises:
        ConfigError: shapes, dtypes or devices that don't fit each other, or rank 0.
    """

    u: Float[Tensor, "L T M"]
    vt: Float[Tensor, "L M F"]

    def __post_init__(self) -> None:
        fits = self.u.ndim == 3 and self.vt.ndim == 3
        if not fits or (self.u.shape[0], self.u.shape[2]) != tuple(self.vt.shape[:2]):
            raise ConfigError(
                "Invalid shape of factors: expected u [L, T, M] and vt [L, M, F], "
                f"got {list(self.u.shape)} and {list(self.vt.shape)}"
            )
        if self.rank < 1:
            raise ConfigError("Invalid rank of factors: expected >= 1, got 0")
        if (self.u.dtype, self.u.device) != (self.vt.dtype, self.vt.device):
            raise ConfigError(
                f"Invalid factors: expected one dtype and device, got {self.u.dtype} on "
                f"{self.u.device} and {self.vt.dtype} on {self.vt.device}"
            )

    @property
    def rank(self) -> int:
        """M."""
        return self.u.shape[2]

    @property
    def num_bytes(self) -> int:
        """Bytes of both factors."""
        return sum(t.numel() * t.element_size() for t in (self.u, self.vt))

    def to(self, dtype: torch.dtype) -> "Factors":
        """The factors in another dtype; the same tensors when it is already theirs."""
        return Factors(self.u.to(dtype), self.vt.to(dtype))

    def truncate(self, rank: int | None) -> "Factors":
        """The first `rank` directions, as views: a fit orders them by energy. None keeps all."""
        if rank is not None and rank < 1:
            raise ConfigError(f"Invalid rank: expected >= 1, or None for all, got {rank}")
        return Factors(self.u[..., :rank], self.vt[:, :rank])

    def product(self, dtype: torch.dtype = torch.float32) -> Float[Tensor, "L T F"]:
        """U_m V_mᵀ, multiplied and returned in `dtype`."""
        return self.u.to(dtype) @ self.vt.to(dtype)


@dataclass(frozen=True, eq=False)
class Patch:
    """The conditioning patch of one chunk, valid for the one antecedent that it names.

    Attributes:
        factors: channel name -> `Factors`, un-rotated frame.
        antecedent: key of the ordered antecedent that the patch was formed on. Never replay a
            patch on another one (paper §5: stale η −0.68 to −2.85).
        kind: what the deficit was.

    Raises:
        ConfigError: unknown channels or kind, an empty antecedent, channels that disagree in L, T.
    """

    factors: Mapping[str, Factors]
    antecedent: str
    kind: PatchKind = "exact"

    def __post_init__(self) -> None:
        channels_of(list(self.factors))
        object.__setattr__(self, "factors", dict(self.factors))
        if self.kind not in get_args(PatchKind):
            raise ConfigError(
                f"Invalid kind: expected one of {get_args(PatchKind)}, got {self.kind!r}"
            )
        if not self.antecedent:
            raise ConfigError("Invalid antecedent: expected the key of the antecedent, got ''")
        shapes = {name: list(f.u.shape[:2]) for name, f in self.factors.items()}
        if len({tuple(shape) for shape in shapes.values()}) > 1:
            raise ConfigError(
                f"Invalid factors: expected one [L, T] for all channels, got {shapes}"
            )

    @property
    def rank(self) -> int:
        """The highest rank of any channel."""
        return max(factors.rank for factors in self.factors.values())

    @property
    def num_bytes(self) -> int:
        """Bytes of the factors of all channels."""
        return sum(factors.num_bytes for factors in self.factors.values())

    def truncate(self, rank: int | None) -> "Patch":
        """The patch of this rank: what fitting at it would give. None keeps all."""
        factors = {name: factors.truncate(rank) for name, factors in self.factors.items()}
        return Patch(factors, self.antecedent, self.kind)

    def to(self, dtype: torch.dtype) -> "Patch":
        """The patch with its factors in another dtype, e.g. bf16 to halve its bytes."""
        factors = {name: factors.to(dtype) for name, factors in self.factors.items()}
        return Patch(factors, self.antecedent, self.kind)
