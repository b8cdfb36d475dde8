"""Rotate keys to a position, take the rotation back, relocate a stored canonical (paper §3)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from kamera.errors import ConfigError
from kamera.rope.angles import check_positions, cos_sin
from kamera.rope.spec import RopeSpec


def rotate(
    x: Float[Tensor, "... T H D"],
    positions: Int[Tensor, "T P"],
    spec: RopeSpec,
    out_dtype: torch.dtype | None = None,
) -> Float[Tensor, "... T H D"]:
    """s · R(p) x: turn position-free keys to absolute positions, as the model caches them.

    Args:
        x: keys before RoPE; leading dimensions (layers, batch) share the positions.
        positions: absolute positions of each token on each axis (t, h, w), int64.
        spec: the model's rotary scheme; s is its `attention_scaling`.
        out_dtype: dtype of the result; `x.dtype` when None.

    Returns:
        A new tensor. Angles as the model rounds them, cos and sin in float64, products in float32
        (float64 when `x` is), then **one** rounding to the output dtype. With s = 1, tokens whose
        positions are all zero come back bit for bit.

    Raises:
        ConfigError: shapes or dtypes that don't fit.
    """
    return _turn(x, positions, spec, out_dtype, inverse=False)


def unrotate(
    x: Float[Tensor, "... T H D"],
    positions: Int[Tensor, "T P"],
    spec: RopeSpec,
    out_dtype: torch.dtype | None = None,
) -> Float[Tensor, "... T H D"]:
    """R(−p) x / s: take the model's rotation (and its attention factor) off cached keys.

    The exact inverse of `rotate` up to rounding: it uses the very angles that the model used.
    Arguments, dtype rule and errors as in `rotate`. Pass `out_dtype=torch.float32` to un-rotate a
    bf16 cache without a second rounding.
    """
    return _turn(x, positions, spec, out_dtype, inverse=True)


def relocate(
    canonical: Float[Tensor, "... T H D"],
    positions: Int[Tensor, "T P"],
    spec: RopeSpec,
    out_dtype: torch.dtype | None = None,
) -> Float[Tensor, "... T H D"]:
    """Place a stored canonical at absolute positions: the R(δ) of the paper's Eq. 1.

    The canonical is stored un-rotated, so that moving it is one `rotate` from zero, whatever
    positions it was cached at or served at before. Never feed the result back in: rotations that
    are chained in the cache dtype drift, this doesn't.
    """
    return rotate(canonical, positions, spec, out_dtype)


def _turn(
    x: Tensor, positions: Tensor, spec: RopeSpec, out_dtype: torch.dtype | None, *, inverse: bool
) -> Tensor:
    _check_keys(x, spec)
    check_positions(positions, x.shape[-3], spec)
    positions = positions.to(x.device)
    compute_dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    gain = 1.0 / spec.attention_scaling if inverse else spec.attention_scaling
    cos, sin = ((gain * t).to(compute_dtype)[:, None, :] for t in cos_sin(positions, spec))
    if inverse:
        sin = -sin

    first, second = x.to(compute_dtype).chunk(2, dim=-1)
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    out[..., : spec.num_pairs] = first * cos - second * sin
    out[..., spec.num_pairs :] = second * cos + first * sin
    if gain == 1.0:
        _keep_unmoved(out, x, positions)
    return out


def _keep_unmoved(out: Tensor, x: Tensor, positions: Tensor) -> None:
    """Copy the tokens at the origin: `a·1 − b·0` would lose the sign of a negative zero."""
    unmoved = (positions == 0).all(dim=-1)
    if bool(unmoved.any()):
        out[..., unmoved, :, :] = x[..., unmoved, :, :].to(out.dtype)


def _check_keys(x: Tensor, spec: RopeSpec) -> None:
    if x.ndim < 3 or x.shape[-1] != spec.head_dim:
        raise ConfigError(
            f"Invalid shape of x: expected [..., T, H, D={spec.head_dim}], got {list(x.shape)}"
        )
    if not x.is_floating_point():
        raise ConfigError(f"Invalid dtype of x: expected a floating dtype, got {x.dtype}")
