"""The plain float64 reference: complex numbers, one pair at a time. Shares no code with Kamera."""

import cmath
import struct

import torch

from kamera.rope import RopeSpec


def round_to_float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def members(spec: RopeSpec, pair: int) -> tuple[int, int]:
    """The channels of the two members of a pair."""
    return (pair, pair + spec.num_pairs) if spec.layout == "half" else (2 * pair, 2 * pair + 1)


def reference_rotate(x: torch.Tensor, positions: torch.Tensor, spec: RopeSpec, sign: int = 1):
    """s^sign · R(sign · p) x in float64, by the model's float32-rounded angles. x [T, H, D]."""
    out = x.double().clone()
    for token in range(x.shape[0]):
        for pair in range(spec.num_pairs):
            position = int(positions[token, spec.axes[pair]])
            angle = round_to_float32(spec.inv_freq[pair] * position)
            turn = cmath.exp(1j * sign * angle) * spec.attention_scaling**sign
            real, imag = members(spec, pair)
            for head in range(x.shape[1]):
                value = complex(float(x[token, head, real]), float(x[token, head, imag]))
                out[token, head, real] = (value * turn).real
                out[token, head, imag] = (value * turn).imag
    return out


def make_spec(
    num_axes: int = 3,
    head_dim: int = 16,
    scaling: float = 1.0,
    layout: str = "half",
    rotary_dim: int | None = None,
) -> RopeSpec:
    """Frequencies from 1 down to 1e-6 radians; at P = 3 the sections are 1/4, 3/8, 3/8."""
    num_pairs = (rotary_dim or head_dim) // 2
    inv_freq = torch.logspace(0, -6, num_pairs, dtype=torch.float64).float().tolist()
    first, second = num_pairs // 4, num_pairs // 4 + (3 * num_pairs) // 8
    sectioned = [0 if i < first else 1 if i < second else 2 for i in range(num_pairs)]
    axes = sectioned if num_axes == 3 else [0] * num_pairs
    return RopeSpec(tuple(inv_freq), tuple(axes), num_axes, head_dim, scaling, layout=layout)


def pair_length(reference: torch.Tensor, spec: RopeSpec) -> torch.Tensor:
    """The length of the pair that each channel belongs to; of a channel that has none, its own."""
    length = reference.double().abs()
    for pair in range(spec.num_pairs):
        real, imag = members(spec, pair)
        longer = torch.hypot(length[..., real], length[..., imag])
        length[..., real] = length[..., imag] = longer
    return length.clamp_min(1e-300)


def pair_ulp(reference: torch.Tensor, spec: RopeSpec, mantissa_bits: int = 7) -> torch.Tensor:
    """One ULP (bf16: 7 bits) at the magnitude of the pair that each channel belongs to."""
    return torch.exp2(torch.floor(torch.log2(pair_length(reference, spec))) - mantissa_bits)
