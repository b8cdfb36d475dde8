"""One rounding: what the operator makes of stored keys, against their rotation in float64, value by value.

The reference is a product of complex numbers by the model's float32 angles, written here. A value may differ
by half an ULP of itself, and by what three float32 roundings (cosine, product, sum) cost its pair:

    |got − exact|  ≤  u·|exact| + 3·u32·|pair|·(1 + u)        u = ε/2 of the dtype

The two prefills' rounding is no part of it: products rounded to bfloat16 have no room in it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kamera.lab.conformance.checks.rotation import specs_of
from kamera.lab.conformance.measure import Outcome
from kamera.lab.conformance.subject import Subject
from kamera.rope import RopeSpec
from kamera.shapes import Positions

NUM_ROUNDINGS = 3
OFFSET = 37


def check(subject: Subject) -> list[Outcome]:
    layout = subject.b.layout
    near, far = layout.at(OFFSET), subject.spread(layout, subject.far)
    kv, _ = subject.prefill([subject.b], near)
    keys = next(channel.name for channel in kv.channels if channel.rotates)
    canonical = kv.to_canonical(near, subject.rope)
    placed = canonical.at(far, subject.rope)
    worst = 0.0
    for layer, spec in enumerate(specs_of(subject)):
        cached, stored, moved = (x.tensors[keys][layer] for x in (kv, canonical, placed))
        worst = max(worst, excess(stored, cached, near, spec, inverse=True))
        worst = max(worst, excess(moved, stored, far, spec, inverse=False))
    return [Outcome("stored keys rounded once", worst, 1.0)]


def excess(
    got: Tensor, keys: Tensor, positions: Positions, spec: RopeSpec, *, inverse: bool
) -> float:
    """The largest error of `got` [T, H, D] in multiples of what it may be; above 1 is too much."""
    exact = turned(pairs_of(keys.double(), spec), positions, spec, inverse=inverse)
    unit, unit32 = (torch.finfo(dtype).eps / 2 for dtype in (got.dtype, torch.float32))
    size = exact.norm(dim=-1, keepdim=True)
    allowed = unit * exact.abs() + NUM_ROUNDINGS * unit32 * (1 + unit) * size
    off = (pairs_of(got.double(), spec) - exact).abs()
    tiny = torch.finfo(torch.float32).tiny
    return float((off / allowed.clamp_min(tiny)).max())


def pairs_of(keys: Tensor, spec: RopeSpec) -> Tensor:
    """[T, H, N, 2]: the two members of each rotated pair beside each other."""
    rotated = keys[..., : spec.rotary_dim]
    if spec.layout == "pairs":
        return rotated.reshape(*rotated.shape[:-1], spec.num_pairs, 2)
    return rotated.reshape(*rotated.shape[:-1], 2, spec.num_pairs).transpose(-1, -2)


def turned(pairs: Tensor, positions: Positions, spec: RopeSpec, *, inverse: bool) -> Tensor:
    """Pairs [T, H, N, 2] in float64, times s·exp(iθ), or the inverse of that."""
    angles = positions.float()[:, list(spec.axes)] * spec.inv_freq_tensor()
    turn = torch.polar(torch.tensor(spec.attention_scaling).double(), angles.double())[:, None]
    numbers = torch.view_as_complex(pairs.contiguous())
    return torch.view_as_real(numbers / turn if inverse else numbers * turn)
