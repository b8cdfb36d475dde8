"""Query-aware oracle (Quest-style): the tokens that the question attends to most are recomputed.

Tang et al., "Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference" (ICML 2024), which
bounds a page's attention from its keys. Here the attention itself is used, that of the question over the
re-prefilled window, token by token: an oracle, better than any such bound (paper Table 6).
"""

import torch
from torch import Tensor

from kamera.arms.laid_out import LaidOut
from kamera.arms.token_arm import Choice, TokenArm, in_all_layers


class QueryOracle(TokenArm):
    """By the question's attention, all layers and heads. All tokens: re-prefill."""

    label = "quest oracle"

    def choose(self, window: LaidOut) -> Choice:
        """The highest over the whole window."""
        scores = self._question_mass(window)
        return in_all_layers(window, window.top(scores, window.budget(self.budget)))

    def _question_mass(self, window: LaidOut) -> Tensor:
        request = window.request
        chunks = [*request.cached, request.tail]
        rows = torch.zeros(window.num_tokens + request.tail.num_tokens, dtype=torch.bool)
        rows[window.num_tokens :] = True
        mass = torch.zeros(window.num_tokens)

        def add(_: int, weights: Tensor) -> None:
            mass.add_(weights[:, :, : window.num_tokens].sum((0, 1)).cpu())

        self.bench.open.recompute(
            chunks,
            self.bench.vision(chunks),
            self.bench.full(chunks).kv,
            rows,
            lambda layer, fresh, held: torch.ones(request.tail.num_tokens, dtype=torch.bool),
            observe=add,
        )
        return mass
