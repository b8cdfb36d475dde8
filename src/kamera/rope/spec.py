"""`RopeSpec`: everything that decides how a model rotates its keys, as plain immutable data."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from kamera.errors import ConfigError, UnsupportedRopeError

Layout = Literal["half"]
"""How the two members of a rotated pair lie in the head: `half` pairs channel i with i + R/2."""

_NUM_AXES = (1, 3)


@dataclass(frozen=True)
class RopeSpec:
    """A rotary scheme as a pure rotation, read from a model (paper §3; never from a formula).

    Pair i of a head turns by `inv_freq[i] * position[axes[i]]` radians, then the whole key is
    multiplied by `attention_scaling` (YaRN's factor; 1 elsewhere).

    Attributes:
        inv_freq: radians per position of each of the N = R/2 pairs: the model's own float32 buffer,
            each value exactly representable in float32.
        axes: the position axis that each pair reads (all 0 for 1-D; 0, 1, 2 = t, h, w for M-RoPE).
        num_axes: P, the number of position axes: 1 or 3.
        head_dim: D. Only D = 2N (every channel rotated) is supported.
        attention_scaling: factor on cos and sin. `unrotate` divides it out, `rotate` puts it back.
        scheme: the model's own name for how the frequencies were made, e.g. `"yarn"`.
        layout: pairing of the channels.

    Raises:
        ConfigError: the fields contradict each other.
        UnsupportedRopeError: partial rotary or a pairing other than `half`.
    """

    inv_freq: tuple[float, ...]
    axes: tuple[int, ...]
    num_axes: int
    head_dim: int
    attention_scaling: float = 1.0
    scheme: str = "default"
    layout: Layout = "half"

    def __post_init__(self) -> None:
        self._check_frequencies()
        self._check_axes()
        self._check_head()

    def _check_frequencies(self) -> None:
        if not self.inv_freq:
            raise ConfigError("Invalid inv_freq: expected N >= 1 frequencies, got none")
        rounded = torch.tensor(self.inv_freq, dtype=torch.float32).tolist()
        for index, (value, value32) in enumerate(zip(self.inv_freq, rounded, strict=True)):
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"Invalid inv_freq[{index}]: expected finite >= 0, got {value}")
            if value != value32:
                raise ConfigError(
                    f"Invalid inv_freq[{index}]: expected a float32 value of the model's own "
                    f"buffer, got {value!r}; pass buffer.float().tolist()"
                )
        if not (math.isfinite(self.attention_scaling) and self.attention_scaling > 0):
            raise ConfigError(
                f"Invalid attention_scaling: expected finite > 0, got {self.attention_scaling}"
            )

    def _check_axes(self) -> None:
        if self.num_axes not in _NUM_AXES:
            raise ConfigError(f"Invalid num_axes: expected one of {_NUM_AXES}, got {self.num_axes}")
        if len(self.axes) != self.num_pairs:
            raise ConfigError(
                f"Invalid axes: expected one axis for each of the N={self.num_pairs} pairs, "
                f"got {len(self.axes)}"
            )
        outside = [axis for axis in self.axes if not 0 <= axis < self.num_axes]
        if outside:
            raise ConfigError(f"Invalid axes: expected 0..{self.num_axes - 1}, got {outside[0]}")

    def _check_head(self) -> None:
        rotary_dims = 2 * self.num_pairs
        if rotary_dims > self.head_dim:
            raise ConfigError(
                f"Invalid head_dim: expected >= 2N={rotary_dims} rotated channels, "
                f"got {self.head_dim}"
            )
        if rotary_dims < self.head_dim:
            raise UnsupportedRopeError(
                f"partial rotary isn't supported yet: {rotary_dims} of {self.head_dim} channels "
                "of a head rotate"
            )
        if self.layout != "half":
            raise UnsupportedRopeError(
                f"pair layout {self.layout!r} isn't supported yet: expected 'half' (i, i + R/2)"
            )

    @property
    def num_pairs(self) -> int:
        """N, the rotated pairs of one head."""
        return len(self.inv_freq)

    def inv_freq_tensor(self, device: torch.device | None = None) -> Float32[Tensor, " N"]:
        """The frequencies as the model's float32 buffer, bit for bit; a fresh tensor."""
        return torch.tensor(self.inv_freq, dtype=torch.float32, device=device)

    def axes_tensor(self, device: torch.device | None = None) -> Int64[Tensor, " N"]:
        """The axis of each pair, int64; a fresh tensor."""
        return torch.tensor(self.axes, dtype=torch.int64, device=device)

    def fingerprint(self) -> dict[str, object]:
        """Every input that decides the rotation, as a plain JSON-able dict for identity digests.

        Floats are hex strings (`float.hex`), exact: specs with equal fingerprints rotate alike, bit
        for bit.
        """
        return {
            "attention_scaling": self.attention_scaling.hex(),
            "axes": list(self.axes),
            "head_dim": self.head_dim,
            "inv_freq": [value.hex() for value in self.inv_freq],
            "layout": self.layout,
            "num_axes": self.num_axes,
            "scheme": self.scheme,
        }
