"""Orbit patch: one patch for every ordering of the antecedents, the tested ordering held out of its mean.

Paper section 5 (reorder). The pinned prefix stays in front in every ordering.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from kamera.arms.contract import ArmRequest
from kamera.arms.placed_arm import Placed, PlacedArm
from kamera.arms.workbench import Workbench
from kamera.chunk import Chunk
from kamera.patch import Patch, apply, form_patch, mean_deficit


class Orbit(PlacedArm):
    """Rank m of the mean deficit over other orderings.

    Without `hold_out` the orbit is the tested ordering alone: at full rank that is re-prefill.
    """

    def __init__(
        self,
        bench: Workbench,
        rank: int | None,
        *,
        max_orderings: int = 6,
        hold_out: bool = True,
    ) -> None:
        super().__init__(bench)
        self.rank, self.max_orderings, self.hold_out = rank, max_orderings, hold_out
        self.name = f"orbit {'full' if rank is None else rank}"
        self.reset()

    def reset(self) -> None:
        """Forget all patches."""
        self._patches: dict[tuple[str, ...], Patch] = {}

    def form(self, request: ArmRequest, index: int) -> None:
        """One conditioned forward for each ordering but the window's own."""
        window = request.cached[: index + 1]
        key = tuple(chunk.digest for chunk in window)
        if key in self._patches:
            return
        num_pinned = 0 if request.prefix is None else 1
        others = [tuple(window[:-1])]
        if self.hold_out:
            others = orderings(window[:-1], num_pinned, self.max_orderings)
        deficits = [self.bench.delta([*before, window[-1]], index) for before in others]
        antecedent = f"orbit of {index} chunks"
        dtype = self.bench.canonical(window[-1]).dtype
        self._patches[key] = form_patch(
            mean_deficit(deficits), antecedent, self.rank, kind="orbit", dtype=dtype
        )

    def place(self, request: ArmRequest, index: int, start: int) -> Placed:
        """Relocate and patch."""
        chunk = request.cached[index]
        patch = self._patches[tuple(c.digest for c in request.cached[: index + 1])]
        positions = chunk.layout.at(start)
        kv = apply(self.bench.canonical(chunk), patch, positions, self.bench.engine.spec)
        return Placed(kv, patch.num_bytes if index else 0)


def orderings(before: Sequence[Chunk], num_pinned: int, at_most: int) -> list[tuple[Chunk, ...]]:
    """Other orderings of what stands behind the pinned chunks; the given one where there is no other."""
    given = tuple(chunk.digest for chunk in before)
    pinned, free = tuple(before[:num_pinned]), before[num_pinned:]
    found: dict[tuple[str, ...], tuple[Chunk, ...]] = {}
    for order in itertools.permutations(free):
        ordered = (*pinned, *order)
        digests = tuple(chunk.digest for chunk in ordered)
        if digests != given:
            found.setdefault(digests, ordered)
        if len(found) == at_most:
            break
    return list(found.values()) or [tuple(before)]
