"""`LaidOut`: a request's cached chunks as one run of tokens."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kamera.arms.budget import Budget
from kamera.arms.contract import ArmRequest
from kamera.channels import ChunkKV
from kamera.chunk import Chunk


@dataclass(frozen=True, eq=False)
class LaidOut:
    """The window of a request, blind, and where its chunks are in it.

    Attributes:
        request: window and question.
        blind: placed KV of all cached chunks, T tokens.
    """

    request: ArmRequest
    blind: ChunkKV

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The cached chunks."""
        return self.request.cached

    @property
    def spans(self) -> list[tuple[int, int]]:
        """[start, end) of each chunk's tokens."""
        ends = list(itertools.accumulate(chunk.num_tokens for chunk in self.chunks))
        return list(zip([0, *ends], ends, strict=False))

    @property
    def num_tokens(self) -> int:
        """T."""
        return self.blind.num_tokens

    @property
    def features(self) -> list[int]:
        """F of each channel."""
        return [tensor.shape[2] * tensor.shape[3] for tensor in self.blind.tensors.values()]

    @property
    def behind(self) -> Bool[Tensor, " T"]:
        """Tokens behind the leading chunk: only these have an antecedent, the leading chunk is exact."""
        rows = torch.ones(self.num_tokens, dtype=torch.bool)
        rows[: self.spans[0][1]] = False
        return rows

    def budget(self, budget: Budget) -> int:
        """Tokens for the whole window: the sum over the chunks behind the leading one."""
        return sum(budget.tokens(chunk.num_tokens, self.features) for chunk in self.chunks[1:])

    def top(self, scores: Float[Tensor, " T"], count: int) -> Bool[Tensor, " T"]:
        """The `count` tokens of highest score among those behind the leading chunk; first ones at a tie."""
        behind = self.behind
        order = scores.double().cpu().masked_fill(~behind, -torch.inf)
        best = order.argsort(descending=True, stable=True)[: min(count, int(behind.sum()))]
        rows = torch.zeros_like(behind)
        rows[best] = True
        return rows
