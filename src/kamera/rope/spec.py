"""`RopeSpec`: everything that decides how a model rotates its keys, as plain immutable data."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from kamera.errors import ConfigError, UnsupportedRopeError

Layout = Literal["half", "pairs"]
"""Where the members of pair i lie in a head: `half` at i and i + R/2, `pairs` at 2i and 2i + 1."""

_NUM_AXES = (1, 3)


@dataclass(frozen=True)
class RopeSpec:
    """A rotary scheme as a pure rotation, read from a model (paper §3; never from a formula).

    Pair i of a head turns by `inv_freq[i] * position[axes[i]]` radians, then the whole key is
    multiplied by `attention_scaling` (YaRN's factor; 1 elsewhere). With partial rotary only the
    first R = 2N channels of a head are touched; the other D - R carry no position.

    Attributes:
        inv_freq: radians per position of each of the N = R/2 pairs: the model's own float32 buffer,
            each value exactly representable in float32. A pair of frequency 0 doesn't turn.
        axes: the position axis that each pair reads (all 0 for 1-D; 0, 1, 2 = t, h, w for M-RoPE).
        num_axes: P, the number of position axes: 1 or 3.
        head_dim: D >= R, the size of the channel that rotates (for MLA of `k_pe`).
        attention_scaling: factor on cos and sin. `unrotate` divides it out, `rotate` puts it back.
        scheme: the model's own name for how the frequencies were made, e.g. `"yarn"`.
        layout: pairing of the channels.
        max_positions: exclusive bound of the positions that these frequencies hold for; None when
            they hold everywhere. Dynamic NTK and longrope use others beyond it.

    Raises:
        ConfigError: the fields contradict each other.
    """

    inv_freq: tuple[float, ...]
    axes: tuple[int, ...]
    num_axes: int
    head_dim: int
    attention_scaling: float = 1.0
    scheme: str = "default"
    layout: Layout = "half"
    max_positions: int | None = None

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
        if self.rotary_dim > self.head_dim:
            raise ConfigError(
                f"Invalid head_dim: expected >= 2N={self.rotary_dim} rotated channels, "
                f"got {self.head_dim}"
            )
        if self.layout not in get_args(Layout):
            raise ConfigError(
                f"Invalid layout: expected one of {get_args(Layout)}, got {self.layout!r}"
            )
        if self.max_positions is not None and self.max_positions < 1:
            raise ConfigError(f"Invalid max_positions: expected >= 1, got {self.max_positions}")

    def check_reach(self, end: int) -> None:
        """Raise unless every position below `end` turns by these frequencies.

        A model chooses its frequencies by the furthest position of a whole forward, so an engine
        asks this for the end of each forward, not for each chunk of it.

        Raises:
            UnsupportedRopeError: `end` is beyond `max_positions`.
        """
        if self.max_positions is not None and end > self.max_positions:
            raise UnsupportedRopeError(
                f"position {end - 1} is beyond the reach of this model's frequencies: {self.scheme} "
                f"RoPE uses others from position {self.max_positions} on, and keys of the two sides "
                "don't differ by a rotation; keep the window below it"
            )

    @property
    def num_pairs(self) -> int:
        """N, the rotated pairs of one head."""
        return len(self.inv_freq)

    @property
    def rotary_dim(self) -> int:
        """R = 2N, the rotated channels of one head: its first ones."""
        return 2 * len(self.inv_freq)

    def inv_freq_tensor(self, device: torch.device | None = None) -> Float32[Tensor, " N"]:
        """The frequencies as the model's float32 buffer, bit for bit; a fresh tensor."""
        return torch.tensor(self.inv_freq, dtype=torch.float32, device=device)

    def axes_tensor(self, device: torch.device | None = None) -> Int64[Tensor, " N"]:
        """The axis of each pair, int64; a fresh tensor."""
        return torch.tensor(self.axes, dtype=torch.int64, device=device)

    def fingerprint(self) -> dict[str, object]:
        """Every input that decides the rotation, as a plain JSON-able dict for identity digests.

        Floats are hex strings (`float.hex`), exact: specs with equal fingerprints rotate alike, bit
        for bit. A field that was added later is there only when it isn't its default, so that the
        digests of stores written before stay valid.
        """
        bound = {} if self.max_positions is None else {"max_positions": self.max_positions}
        return {
            **bound,
            "attention_scaling": self.attention_scaling.hex(),
            "axes": list(self.axes),
            "head_dim": self.head_dim,
            "inv_freq": [value.hex() for value in self.inv_freq],
            "layout": self.layout,
            "num_axes": self.num_axes,
            "scheme": self.scheme,
        }
