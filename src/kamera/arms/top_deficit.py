"""Oracle top-p: the tokens of largest true deficit are recomputed. What any token selector hopes to find.

Paper section 4 and Figure 6a ("an oracle that selects tokens by true Δ-magnitude needs p of about 0.5").
"""

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.arms.laid_out import LaidOut
from kamera.arms.token_arm import Choice, TokenArm, in_all_layers
from kamera.arms.workbench import Workbench


class TopDeficit(TokenArm):
    """By ‖Δ‖, known from a conditioned forward. All tokens: re-prefill."""

    label = "oracle top"

    def choose(self, window: LaidOut) -> Choice:
        """The highest over the whole window."""
        scores = deficit_norms(self.bench, window)
        return in_all_layers(window, window.top(scores, window.budget(self.budget)))


def deficit_norms(bench: Workbench, window: LaidOut) -> Float[Tensor, " T"]:
    """Each token's ‖Δ‖ over all layers and channels, each of these in units of the layer's own KV."""
    found = []
    for index, chunk in enumerate(window.chunks):
        if index == 0:
            found.append(torch.zeros(chunk.num_tokens))
            continue
        total = torch.zeros(chunk.num_tokens)
        canonical = bench.canonical(chunk).tensors
        for name, delta in bench.delta(window.chunks, index).items():
            scale = canonical[name].float().flatten(1).norm(dim=1)[:, None]
            total += (delta.norm(dim=-1) / scale).square().sum(0).cpu()
        found.append(total.sqrt())
    return torch.cat(found)
