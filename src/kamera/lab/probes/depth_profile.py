"""How deep is the deficit, and is it conditioning? Norms by layer (paper section 4, Figure 3b)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.lab.probes.case import Case
from kamera.patch import deficit


@dataclass(frozen=True)
class DepthProfile:
    """One channel, by layer, mean over the cases; each a Frobenius norm over that of KV(B given A).

    Attributes:
        deficit: ‖KV(B given A) - KV(B given nothing)‖.
        specific: ‖KV(B given A) - KV(B given a filler)‖. The filler has A's tokens and places; each media
            item of A shows its own mean embedding everywhere. 0 where A holds no media.
        position: ‖KV(B alone at its place) - KV(B alone at 0)‖, un-rotated: what position adds.
        deep_over_shallow: mean `deficit` of the deepest third of the layers over that of the first third.
        n: cases.
    """

    deficit: tuple[float, ...]
    specific: tuple[float, ...]
    position: tuple[float, ...]
    deep_over_shallow: float | None
    n: int


def probe_depth_profile(cases: Iterable[Case]) -> dict[str, DepthProfile]:
    """Channel name -> profile."""
    kinds = ("deficit", "specific", "position")
    found: dict[str, dict[str, list[Tensor]]] = {}
    for case in cases:
        conditioned, canonical = case.conditioned(), case.bench.canonical(case.chunk)
        against = {"deficit": canonical, "specific": with_filler(case)}
        gaps = {kind: deficit(conditioned, base) for kind, base in against.items()}
        gaps["position"] = deficit(alone_at_its_place(case), canonical)
        for name, tensor in conditioned.tensors.items():
            size = tensor.flatten(1).norm(dim=1)
            mine = found.setdefault(name, {kind: [] for kind in kinds})
            for kind in kinds:
                mine[kind].append(gaps[kind][name].norm(dim=(1, 2)) / size)
    return {name: _profile(norms) for name, norms in found.items()}


def with_filler(case: Case) -> ChunkKV:
    """KV(B given a filler in A's place), un-rotated, float32."""
    chunks = case.chunks[: case.target + 1]
    vision = dict(case.bench.vision(chunks))
    for chunk in chunks[:-1]:
        if chunk.media is not None and chunk.media.digest != _media_digest(case):
            seen = vision[chunk.media.digest]
            vision[chunk.media.digest] = seen.mean(0, keepdim=True).expand_as(seen).contiguous()
    kv = case.engine.prefill(chunks, vision, start=0).kv.slice_tokens(*case.span)
    return kv.to_canonical(case.chunk.layout.at(case.start), case.engine.spec, torch.float32)


def alone_at_its_place(case: Case) -> ChunkKV:
    """KV(B given nothing) prefilled at B's place in the window, un-rotated, float32."""
    vision = case.bench.vision([case.chunk])
    kv = case.engine.prefill([case.chunk], vision, start=case.start).kv
    return kv.to_canonical(case.chunk.layout.at(case.start), case.engine.spec, torch.float32)


def deep_over_shallow(by_layer: Float[Tensor, " L"]) -> float | None:
    """Deepest third over first third; None where the first third has nothing."""
    third = max(1, len(by_layer) // 3)
    shallow = float(by_layer[:third].mean())
    return float(by_layer[-third:].mean()) / shallow if shallow > 0 else None


def _profile(norms: dict[str, list[Tensor]]) -> DepthProfile:
    means = {kind: torch.stack(values).mean(0) for kind, values in norms.items()}
    by_layer = {kind: tuple(mean.tolist()) for kind, mean in means.items()}
    ratio = deep_over_shallow(means["deficit"])
    return DepthProfile(**by_layer, deep_over_shallow=ratio, n=len(norms["deficit"]))


def _media_digest(case: Case) -> str | None:
    return None if case.chunk.media is None else case.chunk.media.digest
