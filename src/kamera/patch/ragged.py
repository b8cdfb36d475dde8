"""`RaggedFactors`: the factors of one channel, each layer at a rank of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from kamera.errors import ConfigError


@dataclass(frozen=True, eq=False)
class RaggedFactors:
    """Δ_l ≈ u_l @ (scale_l · vt_l), layer by layer, in flat buffers: what a kernel reads.

    A layer of rank 0 has no factors and stays blind. Quantised factors have one scale for each
    direction: the product needs no more, since a column of u and its row of vt meet nowhere else.

    Attributes:
        u_flat: the layers' [T, M_l] blocks of UΣ one after the other, 1-D.
        vt_flat: the layers' [M_l, F] blocks of Vᵀ, likewise.
        ranks: M_l of each layer.
        num_tokens: T.
        num_features: F.
        scales: float32 [Σ M_l] of quantised factors; None where the buffers are the values.

    Raises:
        ConfigError: sizes, dtypes or devices that don't fit each other; integers without scales.
    """

    u_flat: Shaped[Tensor, " U"]
    vt_flat: Shaped[Tensor, " V"]
    ranks: tuple[int, ...]
    num_tokens: int
    num_features: int
    scales: Float[Tensor, " M"] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks", tuple(self.ranks))
        if not self.ranks or min(self.ranks) < 0 or min(self.num_tokens, self.num_features) < 1:
            raise ConfigError(
                "Invalid factors: expected a rank >= 0 for each layer, T >= 1 and F >= 1, got "
                f"{list(self.ranks)}, T={self.num_tokens}, F={self.num_features}"
            )
        total = sum(self.ranks)
        wanted = {"u_flat": total * self.num_tokens, "vt_flat": total * self.num_features}
        if self.scales is not None:
            wanted["scales"] = total
        for name, size in wanted.items():
            got = getattr(self, name)
            if tuple(got.shape) != (size,):
                raise ConfigError(
                    f"Invalid shape of {name}: expected [{size}] for ranks that sum to {total}, "
                    f"T={self.num_tokens}, F={self.num_features}, got {list(got.shape)}"
                )
            if (got.device, got.is_contiguous()) != (self.u_flat.device, True):
                raise ConfigError(
                    f"Invalid {name}: expected a contiguous tensor on {self.u_flat.device}, "
                    f"got one on {got.device}"
                )
        if self.u_flat.dtype != self.vt_flat.dtype:
            raise ConfigError(
                f"Invalid factors: expected one dtype, got {self.u_flat.dtype} and "
                f"{self.vt_flat.dtype}"
            )
        if self.scales is None and not self.u_flat.is_floating_point():
            raise ConfigError(f"Invalid factors: {self.u_flat.dtype} without scales")

    @property
    def num_layers(self) -> int:
        """L."""
        return len(self.ranks)

    @property
    def rank(self) -> int:
        """The highest rank of any layer; 0 for a patch that changes nothing."""
        return max(self.ranks)

    @property
    def device(self) -> torch.device:
        """Where the factors lie."""
        return self.u_flat.device

    @property
    def num_bytes(self) -> int:
        """Bytes of both factors and of the scales."""
        held = [t for t in (self.u_flat, self.vt_flat, self.scales) if t is not None]
        return sum(t.numel() * t.element_size() for t in held)

    def layers(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[Tensor, Tensor]]:
        """(UΣ [T, M_l], Vᵀ [M_l, F]) of each layer in `dtype`, scales multiplied in."""
        flat = self.flat(dtype)
        yield from flat._blocks()

    def flat(self, dtype: torch.dtype | None = None) -> RaggedFactors:
        """The factors as values, in `dtype`: what a kernel takes.

        With None, quantised ones become bf16 and others keep their dtype, and their storage.

        The value of a quantised factor is a bf16 number, whatever `dtype` it is asked for in: u's are
        exact there (int8 and e4m3 have fewer bits), vt's times their scale are rounded once, by at most
        2^-8 of each, which is about int8's own half step at the largest and less below. So every path
        adds the same patch, and the one for bf16 factors, the fastest, is open to it.
        """
        if self.scales is None:
            return self if dtype is None else self.to(dtype)
        dtype = dtype or torch.bfloat16
        rows = self.vt_flat.view(
            -1, self.num_features
        )  # of all layers: they are alike but in number
        vt = torch.empty_like(rows, dtype=torch.bfloat16)
        plain = rows if rows.dtype == torch.int8 else rows.float()
        torch.mul(plain, self.scales[:, None], out=vt)
        return RaggedFactors(
            self.u_flat.to(torch.bfloat16).to(dtype),
            vt.flatten().to(dtype),
            self.ranks,
            self.num_tokens,
            self.num_features,
        )

    def to(self, dtype: torch.dtype) -> RaggedFactors:
        """The values in another dtype; the same tensors when it is already theirs."""
        if self.scales is not None:
            return self.flat(dtype)
        return RaggedFactors(
            self.u_flat.to(dtype),
            self.vt_flat.to(dtype),
            self.ranks,
            self.num_tokens,
            self.num_features,
        )

    def truncate(self, rank: int | None) -> RaggedFactors:
        """The first `rank` directions of each layer, where it has as many. None keeps all."""
        if rank is None:
            return self
        if rank < 1:
            raise ConfigError(f"Invalid rank: expected >= 1, or None for all, got {rank}")
        return self.with_ranks([min(rank, held) for held in self.ranks])

    def with_ranks(self, ranks: Sequence[int]) -> RaggedFactors:
        """The first `ranks[l]` directions of layer l, copied.

        Raises:
            ConfigError: another number of layers, or a rank that a layer doesn't have.
        """
        check_ranks(ranks, self.ranks)
        kept = list(zip(self._blocks(), ranks, strict=True))
        scales = None
        if self.scales is not None:
            per_layer = zip(torch.split(self.scales, list(self.ranks)), ranks, strict=True)
            scales = torch.cat([scale[:rank] for scale, rank in per_layer])
        return RaggedFactors(
            torch.cat([u[:, :rank].flatten() for (u, _), rank in kept]),
            torch.cat([vt[:rank].flatten() for (_, vt), rank in kept]),
            tuple(ranks),
            self.num_tokens,
            self.num_features,
            scales,
        )

    def product(self, dtype: torch.dtype = torch.float32) -> Float[Tensor, "L T F"]:
        """U_m V_mᵀ, multiplied and returned in `dtype`; zeros in a layer of rank 0."""
        return torch.stack([u @ vt for u, vt in self.layers(dtype)])

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each layer's stored (u [T, M_l], vt [M_l, F]), as views, without scales."""
        starts = accumulate(self.ranks, initial=0)
        for start, rank in zip(starts, self.ranks, strict=False):
            u = self.u_flat.narrow(0, start * self.num_tokens, rank * self.num_tokens)
            vt = self.vt_flat.narrow(0, start * self.num_features, rank * self.num_features)
            yield u.view(self.num_tokens, rank), vt.view(rank, self.num_features)


def check_ranks(wanted: Sequence[int], held: Sequence[int]) -> None:
    """Raise `ConfigError` unless every layer has as many directions as are wanted of it."""
    if len(wanted) != len(held) or any(not 0 <= w <= h for w, h in zip(wanted, held, strict=False)):
        raise ConfigError(
            f"Invalid ranks: expected {len(held)} of them, each from 0 to the layer's own, "
            f"{list(held)}, got {list(wanted)}"
        )
