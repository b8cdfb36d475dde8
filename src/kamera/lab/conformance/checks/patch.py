"""The patch at full rank: the canonical with its whole deficit is KV(B given A), to one ULP of the dtype.

On top of the ULP the fit may cost what a full-rank SVD in plain float32 torch costs on the same deficit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.lab.conformance.checks.rotation import plain_round_trip
from kamera.lab.conformance.measure import Outcome, kv_error, worst
from kamera.lab.conformance.subject import Subject, starts_of
from kamera.patch import apply, deficit, form_patch

FACTOR = 2.0


def check(subject: Subject) -> list[Outcome]:
    window = [subject.prefix, subject.a, subject.b]
    starts = starts_of(window)
    before = subject.form(window[:2], starts)
    home, placed = subject.b.layout.at(0), subject.b.layout.at(starts[2])
    solo, _ = subject.prefill([subject.b], home)
    canonical = solo.to_canonical(home, subject.rope)
    conditioned, _ = subject.prefill([subject.b], placed, subject.place(before, window, starts))

    deltas = deficit(conditioned.to_canonical(placed, subject.rope, torch.float32), canonical)
    patch = form_patch(deltas, antecedent="prefix, A")
    got = apply(canonical, patch, placed, subject.rope)

    keys = next(channel.name for channel in conditioned.channels if channel.rotates)
    ulp = torch.finfo(subject.dtype).eps
    plain = torch.stack([svd_cost(deltas[c.name], conditioned, c.name) for c in got.channels])
    turning = plain_round_trip(conditioned.tensors[keys].float(), int(placed.max()), subject)
    return [
        worst("full-rank patch", [(kv_error(got, conditioned), ulp + FACTOR * (plain + turning))])
    ]


def svd_cost(delta: Tensor, conditioned: ChunkKV, name: str) -> Tensor:
    """[L]: what float32 loses in a full SVD of Δ and the product of its factors, over the KV's norm."""
    left, sigma, right = torch.linalg.svd(delta, full_matrices=False)
    lost = (((left * sigma[:, None]) @ right).double() - delta.double()).reshape(
        conditioned.tensors[name].shape
    )
    norms = conditioned.tensors[name].double().norm(dim=-1).flatten(1).amax(1)
    cost: Tensor = lost.norm(dim=-1).flatten(1).amax(1) / norms
    return cost
