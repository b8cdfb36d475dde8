"""`Factors` (one channel, one rank) and `Patch` (all channels): the low-rank form of a deficit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.channels import channels_of
from kamera.errors import ConfigError
from kamera.patch.ragged import RaggedFactors, check_ranks

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
    def ranks(self) -> tuple[int, ...]:
        """M, for each layer."""
        return (self.rank,) * self.num_layers

    @property
    def num_layers(self) -> int:
        """L."""
        return self.u.shape[0]

    @property
    def num_tokens(self) -> int:
        """T."""
        return self.u.shape[1]

    @property
    def num_features(self) -> int:
        """F."""
        return self.vt.shape[2]

    @property
    def device(self) -> torch.device:
        """Where the factors lie."""
        return self.u.device

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

    def with_ranks(self, ranks: Sequence[int]) -> RaggedFactors:
        """The first `ranks[l]` directions of layer l, copied: a rank for each layer.

        Raises:
            ConfigError: another number of layers, or a rank above M.
        """
        check_ranks(ranks, self.ranks)
        return RaggedFactors(
            torch.cat([u[:, :rank].flatten() for u, rank in zip(self.u, ranks, strict=True)]),
            torch.cat([vt[:rank].flatten() for vt, rank in zip(self.vt, ranks, strict=True)]),
            tuple(ranks),
            self.num_tokens,
            self.num_features,
        )

    def flat(self, dtype: torch.dtype | None = None) -> RaggedFactors:
        """The same values in flat buffers, as a kernel takes them; views of contiguous factors.

        `dtype` None keeps theirs.
        """
        dtype = dtype or self.u.dtype
        u, vt = self.u.to(dtype).reshape(-1), self.vt.to(dtype).reshape(-1)
        return RaggedFactors(u, vt, self.ranks, self.num_tokens, self.num_features)

    def product(self, dtype: torch.dtype = torch.float32) -> Float[Tensor, "L T F"]:
        """U_m V_mᵀ, multiplied and returned in `dtype`."""
        return self.u.to(dtype) @ self.vt.to(dtype)


AnyFactors: TypeAlias = Factors | RaggedFactors
"""One channel's factors: one rank for all layers, or a rank for each."""


@dataclass(frozen=True, eq=False)
class Patch:
    """The conditioning patch of one chunk, valid for the one antecedent that it names.

    Attributes:
        factors: channel name -> `Factors` or `RaggedFactors`, un-rotated frame.
        antecedent: key of the ordered antecedent that the patch was formed on. Never replay a
            patch on another one (paper §5: stale η −0.68 to −2.85).
        kind: what the deficit was.

    Raises:
        ConfigError: unknown channels or kind, an empty antecedent, channels that disagree in L, T.
    """

    factors: Mapping[str, AnyFactors]
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
        shapes = {name: [f.num_layers, f.num_tokens] for name, f in self.factors.items()}
        if len({tuple(shape) for shape in shapes.values()}) > 1:
            raise ConfigError(
                f"Invalid factors: expected one [L, T] for all channels, got {shapes}"
            )

    @property
    def rank(self) -> int:
        """The highest rank of any channel and layer."""
        return max(factors.rank for factors in self.factors.values())

    @property
    def num_bytes(self) -> int:
        """Bytes of the factors of all channels, the scales of quantised ones included."""
        return sum(factors.num_bytes for factors in self.factors.values())

    def truncate(self, rank: int | None) -> "Patch":
        """The patch of this rank: what fitting at it would give. None keeps all."""
        factors = {name: factors.truncate(rank) for name, factors in self.factors.items()}
        return Patch(factors, self.antecedent, self.kind)

    def with_ranks(self, ranks: Mapping[str, Sequence[int]]) -> "Patch":
        """The first `ranks[channel][layer]` directions of each channel and layer.

        Raises:
            ConfigError: other channels or layers, or a rank that isn't held.
        """
        if set(ranks) != set(self.factors):
            raise ConfigError(
                f"Invalid ranks: expected those of {sorted(self.factors)}, got {sorted(ranks)}"
            )
        factors = {name: held.with_ranks(ranks[name]) for name, held in self.factors.items()}
        return Patch(factors, self.antecedent, self.kind)

    def to(self, dtype: torch.dtype) -> "Patch":
        """The patch with its factors in another dtype, e.g. bf16 to halve its bytes."""
        factors = {name: factors.to(dtype) for name, factors in self.factors.items()}
        return Patch(factors, self.antecedent, self.kind)
