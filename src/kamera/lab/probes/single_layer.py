"""Is there a shallow shortcut? Conditioned hidden states put into one layer (paper section 4, Figure 6b)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.engines.hf.recompute import layer_inputs
from kamera.lab.probes.case import Case, laid_out
from kamera.patch import deficit


@dataclass(frozen=True)
class SingleLayer:
    """Mean over the cases.

    Attributes:
        explained: by layer of injection, the share of the last layer's ‖Δ‖² that is there, mean over
            channels: 1 - ‖Δ - Δ'‖² / ‖Δ‖². 0 at the first layer, whose input is the embeddings, 1 at the
            last. Below 0 where what the injection makes is farther off than nothing.
        n: cases.
    """

    explained: tuple[float, ...]
    n: int


def probe_single_layer(cases: Iterable[Case]) -> SingleLayer:
    """Give one layer the hidden states that B has behind A; the layers above it see B alone."""
    found = []
    for case in cases:
        canonical, full = case.bench.canonical(case.chunk), case.delta()
        shares = []
        for layer in range(canonical.num_layers):
            got = deficit(injected(case, layer), canonical)
            left = [
                (full[n][-1] - got[n][-1]).square().sum() / full[n][-1].square().sum() for n in full
            ]
            shares.append(1.0 - torch.stack(left).mean())
        found.append(torch.stack(shares))
    return SingleLayer(tuple(torch.stack(found).mean(0).tolist()), len(found))


def injected(case: Case, layer: int) -> ChunkKV:
    """KV of B alone, un-rotated, float32, with the conditioned hidden states given to `layer`."""
    chunk, bench = case.chunk, case.bench
    home = chunk.layout.at(0)
    out = bench.open.recompute(
        [chunk],
        bench.vision([chunk]),
        bench.canonical(chunk).at(home, case.engine.spec),
        torch.ones(chunk.num_tokens, dtype=torch.bool),
        lambda at, fresh, held: torch.ones(chunk.num_tokens, dtype=torch.bool),
        inputs=(layer, conditioned_inputs(case, layer)),
    )
    return out.kv.to_canonical(home, case.engine.spec, torch.float32)


def conditioned_inputs(case: Case, layer: int) -> Float[Tensor, "T hidden"]:
    """The hidden states of B's tokens that reach `layer` behind A."""
    window = laid_out(case.bench, case.chunks[: case.target + 1])
    start, end = case.span
    return layer_inputs(case.engine.backbone, *window, layer)[start:end]
