"""`Outcome`: what the items of a window operation gave under each arm, item by item."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from kamera.lab.metrics import eta, flip_recover, kl


@dataclass
class Outcome:
    """What the items gave under each arm, `reference` among the answers.

    Attributes:
        kls: arm -> KL to re-prefill of each item, nats.
        answers: arm -> the token of each item.
        deficits: of what was patched: a name -> one figure an item.
    """

    kls: dict[str, list[float]] = field(default_factory=dict)
    answers: dict[str, list[int]] = field(default_factory=dict)
    deficits: dict[str, list[float]] = field(default_factory=dict)

    def add(self, reference: Tensor, logits: dict[str, Tensor]) -> None:
        """One item."""
        self.answers.setdefault("reference", []).append(int(reference.argmax()))
        for name, found in logits.items():
            self.kls.setdefault(name, []).append(kl(found, reference))
            self.answers.setdefault(name, []).append(int(found.argmax()))

    def mean_kl(self, name: str) -> float:
        """Over the items."""
        return float(np.mean(self.kls[name]))

    def eta(self, name: str, other: str = "blind") -> float | None:
        """The share of `other`'s KL that an arm closes."""
        return eta(self.kls[name], self.kls[other])

    def flips(self, name: str) -> tuple[float | None, int]:
        """Flip-recover, and the number of flips."""
        return flip_recover(self.answers[name], self.answers["blind"], self.answers["reference"])
