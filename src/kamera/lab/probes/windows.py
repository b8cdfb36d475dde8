"""The three window operations on the binding task: reorder, survival, recall (paper section 5, Table 1).

Each probe swaps the KV of some chunks in a window whose other chunks stay as re-prefill made them, and
compares the next token with re-prefill's.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kamera.arms import Workbench
from kamera.channels import ChunkKV, concat
from kamera.chunk import Chunk
from kamera.engines.hf import HFEngine
from kamera.lab.evaluation import Progress
from kamera.lab.metrics import agreement
from kamera.lab.probes.energy import components_for, energy_curve
from kamera.lab.probes.outcome import Outcome
from kamera.lab.probes.paper import ORBIT, RECALL, SURVIVOR, paper_figures
from kamera.lab.probes.window_items import legends_and_item, rng, turned_over
from kamera.lab.tasks import binding
from kamera.patch import Deficits, Patch, apply, deficit, form_patch, mean_deficit

TURNOVERS = (0.0, 0.5, 1.0)


@dataclass
class Probe:
    """One engine and what its probes share."""

    engine: HFEngine
    bench: Workbench

    def frame(self) -> tuple[list[Chunk], Chunk]:
        """The pinned prefix, where the template writes one, and the question."""
        prefix, tail = self.engine.frame(binding.QUESTION)
        return [] if prefix is None else [prefix], tail

    def chunks(self, frames: Sequence[Any]) -> list[Chunk]:
        """Frames as chunks."""
        return [self.engine.image_chunk(frame.image) for frame in frames]

    def positions(self, window: Sequence[Chunk], index: int) -> Tensor:
        """Of a chunk in its window."""
        return window[index].layout.at(sum(chunk.extent for chunk in window[:index]))

    def reference(self, window: Sequence[Chunk], tail: Chunk) -> Tensor:
        """Re-prefill's logits."""
        return self.bench.full([*window, tail]).logits

    def canonical_and_patch(
        self, window: Sequence[Chunk], index: int, patch: Patch | None
    ) -> ChunkKV:
        """The chunk from its canonical, at its place in `window`."""
        canonical = self.bench.canonical(window[index])
        return apply(canonical, patch, self.positions(window, index), self.engine.spec)

    def under_patches(
        self, window: Sequence[Chunk], index: int, patches: dict[str, Patch | None], tail: Chunk
    ) -> dict[str, Tensor]:
        """Logits with the chunk under each of these patches."""
        return {
            name: self.logits(window, {index: self.canonical_and_patch(window, index, patch)}, tail)
            for name, patch in patches.items()
        }

    def logits(self, window: Sequence[Chunk], swapped: dict[int, ChunkKV], tail: Chunk) -> Tensor:
        """The window as re-prefilled, but for the swapped chunks."""
        placed = [swapped.get(i, self.bench.conditioned(window, i)) for i in range(len(window))]
        start = sum(chunk.extent for chunk in window)
        return self.engine.prefill([tail], {}, start=start, context=concat(placed)).logits


def orbit_items(
    engine: HFEngine, num_items: int, *, rank: int = 16, progress: Progress | None = None
) -> Outcome:
    """`blind`, `exact` (the ordering's own patch), `transfer` (another ordering's), `orbit` (the others').

    K = 3 legend frames in front of the item. `deficits` has `ordering`: ‖Δπ - Δid‖ / ‖Δid‖.
    """
    probe = Probe(engine, Workbench(engine))
    prefix, tail = probe.frame()
    outcome = Outcome(deficits={"ordering": []})
    for number, item in enumerate(legends_and_item(num_items, 3, 1)):
        *before, target = probe.chunks(item)
        index = len(prefix) + len(before)
        deltas = {
            order: probe.bench.delta([*prefix, *(before[i] for i in order), target], index)
            for order in itertools.permutations(range(3))
        }
        tested = rng(number).permutation(3)
        order = (int(tested[0]), int(tested[1]), int(tested[2]))
        window = [*prefix, *(before[i] for i in order), target]
        others = [delta for other, delta in deltas.items() if other != order]
        identity = deltas[0, 1, 2] if order != (0, 1, 2) else deltas[1, 2, 0]
        outcome.deficits["ordering"].append(_distance(deltas[order], identity))
        patches = {
            "blind": None,
            "exact": form_patch(deltas[order], "tested", rank),
            "transfer": form_patch(identity, "identity", rank),
            "orbit": form_patch(mean_deficit(others), "others", rank, kind="orbit"),
        }
        outcome.add(
            probe.reference(window, tail), probe.under_patches(window, index, patches, tail)
        )
        _done(probe, progress, "orbit", number, num_items)
    return outcome


def probe_orbit(
    engine: HFEngine, num_items: int, *, rank: int = 16, progress: Progress | None = None
) -> dict[str, Any]:
    """K = 3 legend frames in front of the item; the patch of the tested ordering is held out."""
    found = orbit_items(engine, num_items, rank=rank, progress=progress)
    return {
        **{f"eta_{name}": found.eta(name) for name in ("exact", "transfer", "orbit")},
        **{f"kl_{name}": found.mean_kl(name) for name in found.kls},
        "ordering_distance": float(np.mean(found.deficits["ordering"])),
        "rank": rank,
        "n": num_items,
        "paper": paper_figures(ORBIT, engine.backbone),
    }


def survivor_items(
    engine: HFEngine,
    num_items: int,
    *,
    ranks: Sequence[int] = (16,),
    told_by: int = -1,
    progress: Progress | None = None,
) -> Outcome:
    """The head legend leaves. What stays is `blind`, kept as it was conditioned (`keep`), or that with a
    removal patch of a rank (`removal 16`).

    `told_by` says which legend has the item's color: the last stays, 0 leaves. `deficits` are of the
    removal: `deep_over_shallow`, the relative ‖Δ‖ of the deepest third of the layers over that of the first
    third, and `e90`, the components that hold 90 % of its energy, the mean over layers and channels.
    """
    probe = Probe(engine, Workbench(engine))
    prefix, tail = probe.frame()
    outcome = Outcome(deficits={"deep_over_shallow": [], "e90": []})
    for number, item in enumerate(legends_and_item(num_items, 2, 2, told_by=told_by)):
        first, second, target = probe.chunks(item)
        long, short = [*prefix, first, second, target], [*prefix, second, target]
        removals = [f"removal {rank}" for rank in ranks]
        swaps: dict[str, dict[int, ChunkKV]] = {n: {} for n in ("blind", "keep", *removals)}
        for place in (len(prefix), len(prefix) + 1):
            kept = _unrotated(probe, long, place + 1)
            positions = probe.positions(short, place)
            delta = deficit(_unrotated(probe, short, place), kept)
            removal = form_patch(delta, "removal", kind="removal")
            swaps["blind"][place] = probe.canonical_and_patch(short, place, None)
            swaps["keep"][place] = kept.at(positions, engine.spec)
            for name, rank in zip(removals, ranks, strict=True):
                patch = removal.truncate(rank)
                swaps[name][place] = apply(kept, patch, positions, engine.spec)
        for name, value in _shape(delta, kept).items():
            outcome.deficits[name].append(value)
        logits = {name: probe.logits(short, swapped, tail) for name, swapped in swaps.items()}
        outcome.add(probe.reference(short, tail), logits)
        _done(probe, progress, "survivor", number, num_items)
    return outcome


def probe_survivor(
    engine: HFEngine, num_items: int, *, rank: int = 16, progress: Progress | None = None
) -> dict[str, Any]:
    """The head legend leaves; what stays is relocated as it was conditioned, or given a removal patch.

    Twice: the item's color is in the legend that stays, and (`told_by_departed`) in the one that left,
    whose digit the survivor still holds.
    """
    stays = survivor_items(engine, num_items, ranks=(rank,), progress=progress)
    left = survivor_items(engine, num_items, ranks=(), told_by=0, progress=progress)
    removal = f"removal {rank}"
    return {
        "kl_keep": stays.mean_kl("keep"),
        "kl_blind": stays.mean_kl("blind"),
        "kl_removal": stays.mean_kl(removal),
        "eta_keep": stays.eta("keep"),
        "eta_removal": stays.eta(removal, "keep"),
        "agreement_keep": agreement(stays.answers["keep"], stays.answers["reference"]),
        "told_by_departed": {
            "kl_keep": left.mean_kl("keep"),
            "kl_blind": left.mean_kl("blind"),
            "eta_keep": left.eta("keep"),
            "agreement_keep": agreement(left.answers["keep"], left.answers["reference"]),
        },
        "rank": rank,
        "n": num_items,
        "paper": paper_figures(SURVIVOR, engine.backbone),
    }


def recall_items(
    engine: HFEngine,
    num_items: int,
    *,
    rank: int = 32,
    told_by: int = 1,
    progress: Progress | None = None,
) -> dict[float, Outcome]:
    """Turnover -> `blind`, `stale` (the patch as it was when the item left) and `fresh` (formed anew).

    `told_by` says which new legend has the item's color. With 1 none has it at turnover 0.5: blind has
    next to no gap there, and η says nothing.
    """
    probe = Probe(engine, Workbench(engine))
    prefix, tail = probe.frame()
    outcomes = {turnover: Outcome() for turnover in TURNOVERS}
    for number in range(num_items):
        old, new, item = turned_over(number, told_by)
        target = probe.chunks([item])[0]
        history, fresh_frames = probe.chunks(old), probe.chunks(new)
        index = len(prefix) + len(history)
        stale = form_patch(probe.bench.delta([*prefix, *history, target], index), "old", rank)
        for turnover, outcome in outcomes.items():
            gone = round(turnover * len(history))
            window = [*prefix, *history[gone:], *fresh_frames[:gone], target]
            fresh = form_patch(probe.bench.delta(window, index), "new", rank)
            patches = {"blind": None, "stale": stale, "fresh": fresh}
            outcome.add(
                probe.reference(window, tail), probe.under_patches(window, index, patches, tail)
            )
        _done(probe, progress, "recall", number, num_items)
    return outcomes


def probe_recall(
    engine: HFEngine, num_items: int, *, rank: int = 32, progress: Progress | None = None
) -> dict[str, Any]:
    """The item leaves, the window turns over, and it is back: its old patch against a fresh one."""
    found = recall_items(engine, num_items, rank=rank, progress=progress)
    last = found[TURNOVERS[-1]]
    return {
        "turnover": list(found),
        "eta_stale": [outcome.eta("stale") for outcome in found.values()],
        "eta_fresh": [outcome.eta("fresh") for outcome in found.values()],
        "kl_blind": [outcome.mean_kl("blind") for outcome in found.values()],
        "flip_recover_stale": last.flips("stale")[0],
        "flip_recover_fresh": last.flips("fresh")[0],
        "num_flips": last.flips("fresh")[1],
        "rank": rank,
        "n": num_items,
        "paper": paper_figures(RECALL, engine.backbone),
    }


def _unrotated(probe: Probe, window: Sequence[Chunk], index: int) -> ChunkKV:
    placed = probe.bench.conditioned(window, index)
    return placed.to_canonical(probe.positions(window, index), probe.engine.spec, torch.float32)


def _shape(delta: Deficits, base: ChunkKV) -> dict[str, float]:
    """How deep and how thin a deficit is, the mean over the channels."""
    ratios, ranks = [], []
    for name, channel in delta.items():
        sizes = channel.norm(dim=(1, 2)) / base.tensors[name].flatten(1).norm(dim=1)
        third = max(1, len(sizes) // 3)
        ratios.append(float(sizes[-third:].mean() / sizes[:third].mean()))
        ranks.append(float(components_for(energy_curve(channel)).mean()))
    return {"deep_over_shallow": float(np.mean(ratios)), "e90": float(np.mean(ranks))}


def _distance(a: Deficits, b: Deficits) -> float:
    """‖Δπ − Δid‖ / ‖Δid‖ over all channels."""
    gap = sum(float((a[name] - b[name]).square().sum()) for name in a)
    return float((gap / sum(float(b[name].square().sum()) for name in b)) ** 0.5)


def _done(probe: Probe, progress: Progress | None, name: str, number: int, total: int) -> None:
    probe.bench.clear()
    if progress is not None:
        progress(name, number + 1, total)
