"""Rotate keys to a position, take the rotation back, relocate a stored canonical (paper §3)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from kamera.errors import ConfigError
from kamera.rope.angles import check_positions, cos_sin
from kamera.rope.per_layer import PerLayerRope, Rope
from kamera.rope.spec import RopeSpec


def rotate(
    x: Float[Tensor, "... T H D"],
    positions: Int[Tensor, "T P"],
    spec: Rope,
    out_dtype: torch.dtype | None = None,
) -> Float[Tensor, "... T H D"]:
    """s · R(p) x: turn position-free keys to absolute positions, as the model caches them.

    Args:
        x: keys before RoPE; leading dimensions (layers, batch) share the positions. With a
            `PerLayerRope` exactly [L, T, H, D].
        positions: absolute positions of each token on each axis (t, h, w), int64.
        spec: the model's rotary scheme; s is its `attention_scaling`.
        out_dtype: dtype of the result; `x.dtype` when None.

    Returns:
        A new tensor. Angles as the model rounds them, cos and sin in float64, products in float32
        (float64 when `x` is), then **one** rounding to the output dtype. With s = 1, tokens whose
        positions are all zero come back bit for bit; so do, always, the channels that don't rotate.

    Raises:
        ConfigError: shapes or dtypes that don't fit.
        UnsupportedRopeError: a position beyond the reach of the spec's frequencies.
    """
    return _turn(x, positions, spec, out_dtype, inverse=False)


def unrotate(
    x: Float[Tensor, "... T H D"],
    positions: Int[Tensor, "T P"],
    spec: Rope,
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
    spec: Rope,
    out_dtype: torch.dtype | None = None,
) -> Float[Tensor, "... T H D"]:
    """Place a stored canonical at absolute positions: the R(δ) of the paper's Eq. 1.

    The canonical is stored un-rotated, so that moving it is one `rotate` from zero, whatever
    positions it was cached at or served at before. Never feed the result back in: rotations that
    are chained in the cache dtype drift, this doesn't.
    """
    return rotate(canonical, positions, spec, out_dtype)


def _turn(
    x: Tensor, positions: Tensor, spec: Rope, out_dtype: torch.dtype | None, *, inverse: bool
) -> Tensor:
    if isinstance(spec, RopeSpec):
        return _turn_alike(x, positions, spec, out_dtype, inverse=inverse)
    _check_layers(x, spec)
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    for index, layer_spec in enumerate(spec.specs):
        layers = torch.tensor(spec.layers_of(index), device=x.device)
        out[layers] = _turn_alike(x[layers], positions, layer_spec, out_dtype, inverse=inverse)
    return out


def _turn_alike(
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

    first_channels, second_channels = _pair_channels(spec)
    first, second = (
        x[..., first_channels].to(compute_dtype),
        x[..., second_channels].to(compute_dtype),
    )
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    out[..., first_channels] = first * cos - second * sin
    out[..., second_channels] = second * cos + first * sin
    if spec.rotary_dim < spec.head_dim:
        out[..., spec.rotary_dim :] = x[..., spec.rotary_dim :]
    if gain == 1.0:
        _keep_unmoved(out, x, positions)
    return out


def _pair_channels(spec: RopeSpec) -> tuple[slice, slice]:
    """The channels of the first and of the second members of the pairs, pair by pair."""
    if spec.layout == "pairs":
        return slice(0, spec.rotary_dim, 2), slice(1, spec.rotary_dim, 2)
    return slice(0, spec.num_pairs), slice(spec.num_pairs, spec.rotary_dim)


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


def _check_layers(x: Tensor, spec: PerLayerRope) -> None:
    if x.ndim != 4 or x.shape[0] != spec.num_layers:
        raise ConfigError(
            f"Invalid shape of x: expected [L={spec.num_layers}, T, H, D={spec.head_dim}] for a "
            f"rotary scheme per layer, got {list(x.shape)}"
        )
