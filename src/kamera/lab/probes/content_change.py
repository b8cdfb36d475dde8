"""Does the deficit lie where the picture changes? Rank correlation with cheap signals (paper Figure 4b)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from kamera.arms.workbench import Workbench
from kamera.chunk import Chunk
from kamera.errors import ConfigError
from kamera.lab.probes.case import Case, case_of
from kamera.lab.probes.motion import block_motion
from kamera.lab.probes.token_diffuseness import token_norms
from kamera.lab.tasks import Item


@dataclass(frozen=True)
class ContentChange:
    """Against ‖Δ‖ of the target frame's tokens, each within its own item.

    Attributes:
        spearman: signal -> mean over the items of Spearman's ρ; None where no item has a signal that varies.
        num_items: signal -> items in which it varies.
        num_tokens: image tokens of all items.
    """

    spearman: dict[str, float | None]
    num_items: dict[str, int]
    num_tokens: int


def probe_content_change(bench: Workbench, items: Sequence[Item]) -> ContentChange:
    """The target frame of each item against the frame before it.

    Raises:
        ConfigError: a target without a frame of the same size before it, or one that isn't an image.
    """
    found: dict[str, list[float]] = {}
    num_tokens = 0
    for item in items:
        case = case_of(bench, item)
        seen = case.engine.is_media(case.chunk).cpu()
        deficits = token_norms(case)[seen].double().numpy()
        num_tokens += len(deficits)
        for name, signal in signals(case, item).items():
            rho = spearman(signal, deficits)
            found.setdefault(name, []).extend([] if rho is None else [rho])
        bench.clear()
    return ContentChange(
        {name: float(np.mean(values)) if values else None for name, values in found.items()},
        {name: len(values) for name, values in found.items()},
        num_tokens,
    )


def signals(case: Case, item: Item) -> dict[str, Float[np.ndarray, " cells"]]:
    """Signals by image token of B, the target frame.

    motion                how far the cell moved, by block matching
    warp_residual         pixels that the best match doesn't explain
    kv_residual           canonical KV against that of the best match's cell in the frame before
    dissimilarity         1 - cosine of the pixels with those at the same place before
    embedding_difference  ‖vision embedding - that at the same place before‖
    """
    if item.target < 1 or case.chunk.key.kind != "image":
        raise ConfigError(
            f"Invalid target {item.target}, of kind {case.chunk.key.kind!r}: expected an image behind another"
        )
    now, before = item.frames[item.target].image, item.frames[item.target - 1].image
    earlier = case.chunks[case.target - 1]
    bench = case.bench
    vision = bench.vision([earlier, case.chunk])
    here, there = (_embeddings(vision, chunk) for chunk in (case.chunk, earlier))
    moved = block_motion(before, now, grid_of(now, len(here)))
    return {
        "motion": moved.moved_px,
        "warp_residual": moved.residual,
        "kv_residual": kv_residual(case, earlier, moved.source),
        "dissimilarity": 1 - moved.cosine,
        "embedding_difference": (here - there).norm(dim=-1).double().cpu().numpy(),
    }


def grid_of(image: Any, num_tokens: int) -> tuple[int, int]:
    """Rows and columns of an image's tokens, from its shape.

    Raises:
        ConfigError: tokens that don't make a grid of that shape.
    """
    width, height = image.size
    rows = max(1, round(math.sqrt(num_tokens * height / width)))
    if num_tokens % rows:
        raise ConfigError(
            f"{num_tokens} tokens of an image of {width} x {height} pixels: expected a grid of {rows} rows"
        )
    return rows, num_tokens // rows


def kv_residual(
    case: Case, earlier: Chunk, source: Int[np.ndarray, " cells"]
) -> Float[np.ndarray, " cells"]:
    """Distance of each token's canonical KV from its source cell's, each layer in its own units."""
    engine, bench = case.engine, case.bench
    mine, theirs = (bench.canonical(chunk).tensors for chunk in (case.chunk, earlier))
    here, there = (engine.is_media(chunk).nonzero()[:, 0] for chunk in (case.chunk, earlier))
    at = there[torch.from_numpy(source).to(there.device)]
    total = torch.zeros(len(here), dtype=torch.float64)
    for name, tensor in mine.items():
        gap = (tensor[:, here] - theirs[name][:, at]).double().flatten(2).norm(dim=-1)
        size = tensor.double().flatten(1).norm(dim=1)[:, None]
        total += (gap / size).square().sum(0).cpu()
    residual: Float[np.ndarray, " cells"] = total.sqrt().numpy()
    return residual


def spearman(a: Float[np.ndarray, " cells"], b: Float[np.ndarray, " cells"]) -> float | None:
    """Spearman's ρ; None where one of the two doesn't vary."""
    from scipy.stats import spearmanr

    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(spearmanr(a, b).statistic)


def _embeddings(vision: dict[str, Tensor], chunk: Chunk) -> Tensor:
    assert chunk.media is not None
    return vision[chunk.media.digest].float()
