"""Cross-mass: the tokens that attend most to what stands before their chunk are recomputed.

Paper Figure 4a and Table 4: attention mass from B to A, "the best signal" among cheap selectors. All
tokens run through the layers up to the check layer, as in CacheBlend, and their mass there decides which
go on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kamera.arms.budget import Budget
from kamera.arms.laid_out import LaidOut
from kamera.arms.token_arm import Choice, TokenArm
from kamera.arms.workbench import Workbench
from kamera.engines.contract import LayerRows


class CrossMass(TokenArm):
    """By the attention mass on the antecedents up to layer `check_layer`. All tokens: re-prefill."""

    label = "cross-mass"

    def __init__(self, bench: Workbench, budget: Budget, check_layer: int = 1) -> None:
        super().__init__(bench, budget)
        self.check_layer = check_layer

    def choose(self, window: LaidOut) -> Choice:
        """Nothing is chosen ahead."""
        return Router(window, window.budget(self.budget), self.check_layer)


class Router(Choice):
    """Sums the mass up to the check layer, then keeps the tokens with the most."""

    def __init__(self, window: LaidOut, count: int, check_layer: int) -> None:
        super().__init__(window.behind.expand(window.blind.num_layers, -1))
        self._window, self._count, self._check_layer = window, count, check_layer
        self._before = torch.zeros(window.num_tokens, window.num_tokens)
        for start, end in window.spans:
            self._before[start:end, :start] = 1.0
        self._mass = torch.zeros(window.num_tokens)
        self.observe = self._look

    def keep(self, layer: int, fresh: LayerRows, held: LayerRows) -> Tensor:
        """All up to the check layer, then those of most mass."""
        chosen = self.rows
        if layer > self._check_layer:
            chosen = self._window.top(self._mass, self._count)
        return chosen[self.rows]

    def _look(self, layer: int, weights: Tensor) -> None:
        if layer <= self._check_layer:
            heads = weights.mean(0).cpu()
            self._mass[self.rows] += (heads * self._before[self.rows]).sum(1)
