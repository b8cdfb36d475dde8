"""`TokenArm`: what all token arms share. Compose blind, run chosen tokens in context, prefill the tail."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping

import torch
from jaxtyping import Bool
from torch import Tensor

from kamera.arms.budget import Budget
from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.arms.laid_out import LaidOut
from kamera.arms.workbench import Workbench
from kamera.engines.contract import LayerRows, Observe


class Choice:
    """Which tokens are run, and which of them keep their fresh KV in each layer.

    Attributes:
        rows: [T], the tokens that are run.
        kept: [L, T], those that are written, by layer; a subclass may decide as the layers come.
    """

    observe: Observe | None = None

    def __init__(self, kept: Bool[Tensor, "L T"]) -> None:
        self.kept, self.rows = kept, kept.any(0)

    def keep(self, layer: int, fresh: LayerRows, held: LayerRows) -> Tensor:
        """[R]: those of the rows that are run."""
        return self.kept[layer, self.rows]


class TokenArm(Arm):
    """Recomputes tokens in context against the composed KV, layer by layer (paper section 6).

    The leading chunk is exact as it is and isn't recomputed; with all tokens behind it this is re-prefill.
    """

    label: str
    """The arm's name before its budget."""

    def __init__(self, bench: Workbench, budget: Budget) -> None:
        self.bench, self.budget = bench, budget
        self.name = f"{self.label} {budget}"

    @abstractmethod
    def choose(self, window: LaidOut) -> Choice:
        """Choose the tokens. An oracle looks at the answer here, off the clock."""

    def prepare(self, request: ArmRequest) -> None:
        """Compile every chunk's canonical, and see every image: their embeddings are cached."""
        self.bench.blind(request.cached)
        self.bench.vision(request.cached)

    def serve(self, request: ArmRequest) -> Served:
        """Compose, recompute, prefill the tail."""
        self.prepare(request)
        choice = self.choose(LaidOut(request, self.bench.blind(request.cached)))
        clock = time.perf_counter()
        held = self.bench.blind(request.cached)
        out = self.bench.open.recompute(
            request.cached,
            self.bench.vision(request.cached),
            held,
            choice.rows,
            choice.keep,
            observe=choice.observe,
        )
        logits = self.bench.finish(request, out.kv).logits
        ttft_s = time.perf_counter() - clock
        return Served(
            logits,
            num_prefilled=int(out.written.any(0).sum()),
            num_vision_runs=0,
            ttft_s=ttft_s,
            num_bytes=int(out.written.sum()) * row_bytes(held.tensors),
            num_token_layers=token_layers(out.written),
        )


def in_all_layers(window: LaidOut, rows: Bool[Tensor, " T"]) -> Choice:
    """The same tokens in every layer."""
    return Choice(rows.expand(window.blind.num_layers, -1))


def row_bytes(tensors: Mapping[str, Tensor]) -> int:
    """Bytes of one token in one layer, all channels."""
    return sum(t.shape[2] * t.shape[3] * t.element_size() for t in tensors.values())


def token_layers(written: Bool[Tensor, "L R"]) -> int:
    """Layers that tokens go through: to be written in a layer, one must have passed all below it."""
    needed = written.flip(0).int().cummax(0).values
    return int(needed.sum())


def first_of(window: LaidOut, budget: Budget) -> Bool[Tensor, " T"]:
    """The first tokens of each chunk behind the leading one, as many as the budget gives the chunk."""
    rows = torch.zeros(window.num_tokens, dtype=torch.bool)
    for start, end in window.spans[1:]:
        rows[start : start + budget.tokens(end - start, window.features)] = True
    return rows
