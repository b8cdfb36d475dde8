"""Apply a patch: the serve step, zero forwards (paper Eq. 1 and App. A)."""

import torch
from jaxtyping import Int
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.errors import ConfigError
from kamera.patch.factors import AnyFactors, Factors, Patch
from kamera.rope import Rope, relocate


def apply(
    canonical: ChunkKV,
    patch: Patch | None,
    positions: Int[Tensor, "T P"],
    spec: Rope,
    out_dtype: torch.dtype | None = None,
) -> ChunkKV:
    """R(p) · (KV(B given nothing) + U_m V_mᵀ): the chunk as if prefilled at `positions` behind A.

    Args:
        canonical: the stored, un-rotated chunk (for a removal patch: the kept, un-rotated one).
        patch: factors in the same un-rotated frame; None relocates alone ("blind").
        positions: absolute positions of each token on each axis, int64.
        spec: the model's rotary scheme.
        out_dtype: the cache dtype; the canonical's own when None.

    Returns:
        A new chunk. Sum and rotation in float32 (float64 for a float64 canonical), **one** rounding
        to `out_dtype`. Without a patch, values keep their bytes and storage.

    Raises:
        ConfigError: a patch of other channels or shapes than the chunk; positions that don't fit.
    """
    if patch is None:
        return canonical.at(positions, spec, out_dtype)
    _check_fits(canonical, patch)
    dtype = out_dtype or canonical.dtype
    tensors = {}
    for channel in canonical.channels:
        patched = _add(canonical.tensors[channel.name], patch.factors[channel.name])
        tensors[channel.name] = (
            relocate(patched, positions, spec, dtype) if channel.rotates else patched.to(dtype)
        )
    return ChunkKV(tensors)


def _add(base: Tensor, factors: AnyFactors) -> Tensor:
    """base + u @ vt in float32 (float64 for a float64 base), in the shape of `base`."""
    dtype = torch.float64 if base.dtype == torch.float64 else torch.float32
    flat = base.to(dtype).flatten(2)
    if isinstance(factors, Factors):
        return torch.baddbmm(flat, factors.u.to(dtype), factors.vt.to(dtype)).view(base.shape)
    layers = zip(flat, factors.layers(dtype), strict=True)
    return torch.stack([torch.addmm(layer, u, vt) for layer, (u, vt) in layers]).view(base.shape)


def _check_fits(canonical: ChunkKV, patch: Patch) -> None:
    if set(patch.factors) != set(canonical.tensors):
        raise ConfigError(
            f"Invalid channels of patch: expected {sorted(canonical.tensors)}, "
            f"got {sorted(patch.factors)}"
        )
    for name, factors in patch.factors.items():
        layers, tokens, heads, dim = canonical.tensors[name].shape
        got = [factors.num_layers, factors.num_tokens, factors.num_features]
        if got != [layers, tokens, heads * dim]:
            raise ConfigError(
                f"Invalid shape of patch {name}: expected [L={layers}, T={tokens}, "
                f"F={heads * dim}], got {got}; the patch is of another chunk or model"
            )
        if factors.device != canonical.tensors[name].device:
            raise ConfigError(
                f"Invalid device of patch {name}: expected {canonical.tensors[name].device}, "
                f"got {factors.device}"
            )
