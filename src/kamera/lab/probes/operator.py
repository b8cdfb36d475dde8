"""Is relocation exact? Layer-0 keys against the model's own prefill, far out, in bf16, after many slides."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.engines.contract import Engine
from kamera.rope import relocate, unrotate

OFFSETS = (1, 37, 517, 4096, 12345, 30000)
NUM_SLIDES = 1000


def probe_operator(engine: Engine, chunk: Chunk) -> dict[str, Any]:
    """Figures for `chunk`, an image chunk, so that t, h and w differ."""
    vision = {chunk.media.digest: engine.see(chunk)} if chunk.media else {}
    spec = engine.spec
    home = engine.prefill([chunk], vision, start=0).kv
    canonical = home.to_canonical(chunk.layout.at(0), spec)
    rotating, content = _channel_names(canonical)
    errors, values_identical = [], True
    for offset in OFFSETS:
        there = engine.prefill([chunk], vision, start=offset).kv
        moved = canonical.at(chunk.layout.at(offset), spec)
        truth = there.tensors[rotating][0]
        error = (moved.tensors[rotating][0] - truth).abs().max() / truth.abs().max()
        errors.append(float(error))
        values_identical &= moved.tensors[content].equal(canonical.tensors[content])
        values_identical &= moved.tensors[content][0].equal(there.tensors[content][0])
    keys = canonical.tensors[rotating]
    return {
        "offsets": list(OFFSETS),
        "layer0_key_errors": errors,
        "layer0_key_error": max(errors),
        "layer0_key_error_bound": 1e-6,
        "values_identical": bool(values_identical),
        "bf16_ulp": _bf16_ulp(keys, chunk, engine),
        "num_slides": NUM_SLIDES,
        "slides_error": _slides_error(keys, chunk, engine),
    }


def _channel_names(kv: ChunkKV) -> tuple[str, str]:
    """The channel that rotates and the one that doesn't: k and v, or k_pe and c_kv."""
    first, second = sorted(kv.channels, key=lambda channel: not channel.rotates)
    return first.name, second.name


def _bf16_ulp(keys: Tensor, chunk: Chunk, engine: Engine) -> float:
    """Largest error of a bf16 relocation against the same in float64, in ULPs of the rotated pair."""
    stored = keys.bfloat16()
    worst = 0.0
    for offset in OFFSETS:
        positions = chunk.layout.at(offset)
        exact = relocate(stored.double(), positions, engine.spec)
        got = relocate(stored, positions, engine.spec).double()
        half = exact.shape[-1] // 2
        pair = (exact[..., :half].square() + exact[..., half:].square()).sqrt()
        worst = max(
            worst, float(((got - exact).abs() / bf16_ulp(torch.cat([pair, pair], -1))).max())
        )
    return worst


def bf16_ulp(size: Tensor) -> Tensor:
    """The spacing of bf16 numbers of this size."""
    return torch.exp2(torch.floor(torch.log2(size.double().abs().clamp_min(1e-30))) - 7)


def _slides_error(keys: Tensor, chunk: Chunk, engine: Engine) -> float:
    """Relative error at home after 1000 slides, each from the stored canonical."""
    spec = engine.spec
    home = relocate(keys, chunk.layout.at(0), spec)
    for slide in range(NUM_SLIDES):
        moved = relocate(keys, chunk.layout.at(7 * (slide + 1)), spec)
    back = unrotate(moved, chunk.layout.at(7 * NUM_SLIDES), spec)
    again = relocate(back, chunk.layout.at(0), spec)
    return float((again - home).abs().max() / home.abs().max())
