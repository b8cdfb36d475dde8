"""`PatchProfile`: how much of a deficit a patch keeps, and in what numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import torch
from torch import Tensor

from kamera.errors import ConfigError
from kamera.patch.deficit import Deficits
from kamera.patch.factors import Patch, PatchKind
from kamera.patch.fit import form_patch
from kamera.patch.quantise import LARGEST, quantised
from kamera.patch.random_fit import fit_fast
from kamera.patch.ranks import spread_ranks

FACTORS = {
    "float32": torch.float32,
    "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
    "int8": torch.int8,
}
"""What factors can be kept in, by name."""
SCALE_BYTES = 4
"""Of a direction of quantised factors."""
CAP = 2
"""Directions that are fitted in each layer under a byte budget, as a multiple of the mean that fits it."""
FORMS = "rank N, bytes X%, least N, energy X%, deep X%, float32, bf16, fp8, int8"
WORD = re.compile(
    r"(rank|least) (\d+)|(bytes|energy|deep) (\d+(?:\.\d+)?)%|(float32|bf16|fp8|int8)"
)


def _check_count(name: str, value: Any) -> None:
    if value is not None and (type(value) is not int or value < 1):
        raise ConfigError(
            f"Invalid {name}: expected a whole number of at least 1, got {value!r:.80}"
        )


def _check_share(name: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0.0 < value <= 1.0:
        raise ConfigError(
            f"Invalid {name} of a patch: expected a number above 0 and at most 1, got {value!r:.80}"
        )


@dataclass(frozen=True)
class PatchProfile:
    """Bounds that all hold; without one, full rank.

    Attributes:
        rank: most directions of a layer and channel.
        share: most bytes of a patch, as a share of the chunk's KV bytes, spent where they keep most of the
            deficit (`spread_ranks`).
        least: a mean rank that `share` doesn't go below: a short chunk's directions cost more of its KV, and
            its KV is little.
        energy: enough once this share of the deficit's energy is kept.
        depth: share of the layers, from the deepest up, that get any.
        factors: one of `FACTORS`.

    Energy is counted relative to each layer's and channel's own: what a layer's deficit does to the answer
    doesn't follow its size, and keys are larger numbers than values (docs/decisions.md).

    Raises:
        ConfigError: a bound that can't be.
    """

    rank: int | None = None
    share: float | None = None
    least: int | None = None
    energy: float | None = None
    depth: float = 1.0
    factors: str = "float32"

    def __post_init__(self) -> None:
        for name in ("rank", "least"):
            _check_count(name, getattr(self, name))
        for name in ("share", "energy"):
            if getattr(self, name) is not None:
                _check_share(name, getattr(self, name))
        _check_share("depth", self.depth)
        if self.least is not None and self.share is None:
            raise ConfigError(
                f"Invalid least {self.least} of a patch: it is a floor under bytes X%, and there is none; "
                f"expected e.g. 'bytes 6%, least {self.least}', or 'rank {self.least}'"
            )
        if not isinstance(self.factors, str) or self.factors not in FACTORS:
            raise ConfigError(
                f"Invalid factors: expected one of {', '.join(FACTORS)}, got {self.factors!r:.80}"
            )

    @classmethod
    def parse(cls, text: str) -> PatchProfile:
        """From words with commas between, as "bytes 6%, int8". `str` gives them back.

        Raises:
            ConfigError: a word that isn't known, or that comes twice.
        """
        found: dict[str, int | float | str] = {}
        for word in text.split(","):
            match = WORD.fullmatch(word.strip())
            name, value = _meaning(match) if match else ("", 0)
            if not name or name in found:
                raise ConfigError(
                    f"Invalid patch {text!r:.80}: expected each once, with commas, of {FORMS}; "
                    f"got {word.strip()!r:.40}"
                )
            found[name] = value
        return cls(**found)  # type: ignore[arg-type]

    def __str__(self) -> str:
        depth = self.depth if self.depth < 1.0 else None
        words = [
            f"rank {self.rank}" if self.rank is not None else "",
            f"bytes {_percent(self.share)}" if self.share is not None else "",
            f"least {self.least}" if self.least is not None else "",
            f"energy {_percent(self.energy)}" if self.energy is not None else "",
            f"deep {_percent(depth)}" if depth is not None else "",
            self.factors,
        ]
        return ", ".join(filter(None, words))

    @property
    def plain_rank(self) -> int | None:
        """The rank, of a profile that is nothing but a rank in float32; else None."""
        return self.rank if self == PatchProfile(rank=self.rank) else None

    def form(
        self, deltas: Deficits, antecedent: str, kv_bytes: int, kind: PatchKind = "exact"
    ) -> Patch:
        """Fit a deficit and keep as much of it as the bounds allow.

        Args:
            deltas: channel name -> Δ.
            antecedent: key of the antecedent that the patch is valid for.
            kv_bytes: of the chunk's canonical: what `share` is a share of.
            kind: what the deficit is.

        Raises:
            ConfigError: as `form_patch`.
        """
        each = {name: self._bytes_each(delta) for name, delta in deltas.items()}
        patch = form_patch(
            deltas, antecedent, self._cap(deltas, each, kv_bytes), kind, fit=fit_fast
        )
        if (self.share, self.energy, self.depth) != (None, None, 1.0):
            patch = patch.with_ranks(self._ranks(patch, deltas, each, kv_bytes))
        dtype = FACTORS[self.factors]
        return quantised(patch, dtype) if dtype in LARGEST else patch.to(dtype)

    def _bytes_each(self, delta: Tensor) -> int:
        """Bytes of one direction of a channel."""
        dtype = FACTORS[self.factors]
        scale = SCALE_BYTES if dtype in LARGEST else 0
        return (delta.shape[1] + delta.shape[2]) * dtype.itemsize + scale

    def _cap(self, deltas: Deficits, each: Mapping[str, int], kv_bytes: int) -> int | None:
        """The rank to fit: no higher than what can be kept of any layer."""
        if self.share is None:
            return self.rank
        row = sum(len(delta) * each[name] for name, delta in deltas.items())
        budget = self._budget(deltas, each, kv_bytes) or 0
        cap = max(1, math.ceil(CAP * budget / (row * self.depth)))
        return cap if self.rank is None else min(cap, self.rank)

    def _budget(self, deltas: Deficits, each: Mapping[str, int], kv_bytes: int) -> int | None:
        """Bytes that may be spent."""
        if self.share is None:
            return None
        row = sum(len(delta) * each[name] for name, delta in deltas.items())
        return max(int(self.share * kv_bytes), (self.least or 0) * row)

    def _ranks(
        self, patch: Patch, deltas: Deficits, each: Mapping[str, int], kv_bytes: int
    ) -> dict[str, tuple[int, ...]]:
        sigma, totals = {}, {}
        for name, held in patch.factors.items():
            flat = held.flat()
            sigma[name] = torch.stack([u.norm(dim=0) for u, _ in flat.layers()])
            totals[name] = deltas[name].double().square().sum(dim=(1, 2)).cpu()
            shallow = len(sigma[name]) - math.ceil(self.depth * len(sigma[name]))
            sigma[name][:shallow] = 0.0
            totals[name][:shallow] = 0.0
        largest = max(float(total.max()) for total in totals.values())
        weights = {n: t.clamp_min(1e-12 * largest or 1.0).reciprocal() for n, t in totals.items()}
        ranks = spread_ranks(
            {name: values.double().cpu() for name, values in sigma.items()},
            each,
            budget=self._budget(deltas, each, kv_bytes),
            energy=self.energy,
            totals=totals,
            weights=weights,
        )
        return {n: tuple(_nonzero(ranks[n], sigma[n])) for n in ranks}


KNEE = PatchProfile(share=0.06, least=8, factors="int8")
"""The default: docs/decisions.md has the curves that it was read off."""


def profile_of(rank: int | None, patch: str | None) -> PatchProfile:
    """The profile of two settings, of which one or none is given; `KNEE` for none.

    Raises:
        ConfigError: both, or one that can't be.
    """
    if rank is not None and patch is not None:
        raise ConfigError(
            f"Two settings of one thing: rank={rank} and patch={patch!r:.80}; expected one of them. "
            f"A rank in other numbers is patch='rank {rank}, bf16'"
        )
    if patch is not None:
        return PatchProfile.parse(patch)
    return KNEE if rank is None else PatchProfile(rank=rank)


def _percent(share: float) -> str:
    """Every digit and no exponent, so that `parse` gives the same share back."""
    return f"{Decimal(repr(float(share))).scaleb(2):f}%"


def _meaning(match: re.Match[str]) -> tuple[str, int | float | str]:
    """A word's field and value."""
    bound, count, name, percent, factors = match.groups()
    if bound:
        return bound, int(count)
    if factors:
        return "factors", factors
    field = {"bytes": "share", "energy": "energy", "deep": "depth"}[name]
    return field, float(Decimal(percent).scaleb(-2))


def _nonzero(ranks: tuple[int, ...], sigma: Tensor) -> list[int]:
    """The ranks without directions that carry nothing."""
    carried = (sigma > 0).sum(dim=1).tolist()
    return [min(rank, carry) for rank, carry in zip(ranks, carried, strict=True)]
