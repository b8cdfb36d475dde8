"""The probe: a spec must reproduce the cos and sin of the module that it was read from.

A config doesn't tell everything: two models with the same `rope_parameters` can lay their pairs
out differently. Asking the module itself costs microseconds and turns such a misreading, which
would corrupt keys silently, into an error when the model is loaded.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from kamera.errors import UnsupportedRopeError
from kamera.rope.angles import cos_sin
from kamera.rope.spec import RopeSpec

_TOLERANCE = 1e-5
"""Absolute, on cos and sin over the attention factor: a wrong pair or axis is off by far more."""


def check_against_module(rotary: Callable[..., tuple[Tensor, Tensor]], spec: RopeSpec) -> None:
    """Compare the module's forward with the spec at unequal t, h, w.

    Runs `rotary(x, position_ids)` once on four tokens, on the device of its `inv_freq`.

    Raises:
        UnsupportedRopeError: the module's cos and sin aren't the spec's.
    """
    inv_freq = getattr(rotary, "inv_freq", None)
    device = inv_freq.device if isinstance(inv_freq, Tensor) else torch.device("cpu")
    positions = torch.tensor([[0, 0, 0], [3, 11, 29], [17, 5, 8], [101, 211, 307]], device=device)
    positions = positions[:, : spec.num_axes]
    position_ids = positions.T[:, None, :] if spec.num_axes > 1 else positions.T
    with torch.no_grad():
        probe = torch.zeros(1, len(positions), spec.head_dim, device=device)
        got = rotary(probe, position_ids)
    for name, table, expected in zip(("cos", "sin"), got, cos_sin(positions, spec), strict=True):
        wanted = torch.cat([expected, expected], dim=-1) * spec.attention_scaling
        seen = table.reshape(-1, table.shape[-1]).to(torch.float64)
        if seen.shape != wanted.shape or not torch.allclose(seen, wanted, rtol=0, atol=_TOLERANCE):
            raise UnsupportedRopeError(
                f"the rotary module {type(rotary).__name__} isn't the {spec.layout} layout over "
                f"{spec.num_axes} axes that its config tells: its {name} differs from "
                f"{name}(inv_freq * position); axes or pairs that interleave aren't supported yet"
            )
