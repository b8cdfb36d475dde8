"""The angle table: cos and sin of each token's rotation, with the model's own rounding.

The model computes an angle as a float32 product, `inv_freq * position`, and takes the cosine of
that rounded number. At position 30000 the rounding is worth up to 1e-3 radians, so a table from
float64 products describes a *more accurate* rotation than the one the model wrote into its cache,
and undoing the model's rotation with it leaves that difference behind. We therefore round the
product to float32 as the model does, and work in float64 only from there on.
Measured in `tests/rope/test_model_agreement.py`.
"""

from typing import TypeAlias

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from kamera.errors import ConfigError
from kamera.rope.spec import RopeSpec

AngleTable: TypeAlias = Float64[Tensor, "T N"]
"""One float64 value (an angle in radians, its cosine or its sine) per token and pair."""


def check_positions(positions: Tensor, num_tokens: int, spec: RopeSpec) -> None:
    """Check that `positions` is an integer tensor [T=num_tokens, P=num_axes] within the spec's reach.

    Raises:
        ConfigError: another shape or dtype.
        UnsupportedRopeError: a position at or beyond `max_positions`.
    """
    expected = (num_tokens, spec.num_axes)
    if tuple(positions.shape) != expected:
        raise ConfigError(
            f"Invalid shape of positions: expected [T={num_tokens}, P={spec.num_axes}], "
            f"got {list(positions.shape)}"
        )
    if positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool:
        raise ConfigError(
            f"Invalid dtype of positions: expected an integer dtype, got {positions.dtype}"
        )
    if spec.max_positions is not None and num_tokens:
        spec.check_reach(int(positions.max()) + 1)


def angles(positions: Int[Tensor, "T P"], spec: RopeSpec) -> AngleTable:
    """The angle of each token and pair in radians, on the positions' device.

    Each angle is the float32 product that the model computes, widened to float64 without change.
    """
    device = positions.device
    by_pair = positions.to(torch.float32)[:, spec.axes_tensor(device)]
    return (by_pair * spec.inv_freq_tensor(device)).to(torch.float64)


def cos_sin(positions: Int[Tensor, "T P"], spec: RopeSpec) -> tuple[AngleTable, AngleTable]:
    """cos and sin of `angles`, both float64, without the attention factor."""
    table = angles(positions, spec)
    return table.cos(), table.sin()
