"""EPIC: the first k tokens of every chunk are recomputed, to break the attention sink at its start.

Hu et al., "EPIC: Efficient Position-Independent Caching for Serving Large Language Models" (ICML 2025), the
LegoLink algorithm: each chunk's own first tokens, k of 8 to 32, static.
"""

from kamera.arms.laid_out import LaidOut
from kamera.arms.token_arm import Choice, TokenArm, first_of, in_all_layers


class Epic(TokenArm):
    """First k. All tokens: re-prefill."""

    label = "epic"

    def choose(self, window: LaidOut) -> Choice:
        """The first k of each chunk behind the leading one."""
        return in_all_layers(window, first_of(window, self.budget))
