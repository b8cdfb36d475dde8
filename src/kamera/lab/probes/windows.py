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
from kamera.lab.metrics import eta, flip_recover, kl
from kamera.lab.probes.paper import ORBIT, RECALL, SURVIVOR, paper_figures
from kamera.lab.tasks import binding
from kamera.lab.tasks.draw import any_item, legends
from kamera.patch import Deficits, Patch, apply, deficit, form_patch, mean_deficit


@dataclass
class Probe:
    """One engine and what its probes share."""

    engine: HFEngine
    bench: Workbench

    def chunks(self, frames: Sequence[Any]) -> list[Chunk]:
        """Frames as chunks."""
        return [self.engine.image_chunk(frame.image) for frame in frames]

    def reference(self, window: Sequence[Chunk], tail: Chunk) -> Tensor:
        """Re-prefill's logits."""
        return self.bench.full([*window, tail]).logits

    def canonical_and_patch(
        self, window: Sequence[Chunk], index: int, patch: Patch | None
    ) -> ChunkKV:
        """The chunk from its canonical, at its place in `window`."""
        start = sum(chunk.extent for chunk in window[:index])
        canonical = self.bench.canonical(window[index])
        return apply(canonical, patch, window[index].layout.at(start), self.engine.spec)

    def logits(self, window: Sequence[Chunk], swapped: dict[int, ChunkKV], tail: Chunk) -> Tensor:
        """The window as re-prefilled, but for the swapped chunks."""
        placed = [swapped.get(i, self.bench.conditioned(window, i)) for i in range(len(window))]
        start = sum(chunk.extent for chunk in window)
        return self.engine.prefill([tail], {}, start=start, context=concat(placed)).logits


def probe_orbit(
    engine: HFEngine, num_items: int, *, rank: int = 16, progress: Progress | None = None
) -> dict[str, Any]:
    """K = 3 legend frames in front of the item; the patch of the tested ordering is held out."""
    probe = Probe(engine, Workbench(engine))
    prefix, tail = engine.frame(binding.QUESTION)
    assert prefix is not None
    kls: dict[str, list[float]] = {"blind": [], "exact": [], "transfer": [], "orbit": []}
    variation = []
    for number, item in enumerate(_items(num_items, 3, 1)):
        *before, target = probe.chunks(item)
        deltas = {
            order: probe.bench.delta([prefix, *(before[i] for i in order), target], 4)
            for order in itertools.permutations(range(3))
        }
        tested = _rng(number).permutation(3)
        order = (int(tested[0]), int(tested[1]), int(tested[2]))
        window = [prefix, *(before[i] for i in order), target]
        others = [delta for other, delta in deltas.items() if other != order]
        identity = deltas[0, 1, 2] if order != (0, 1, 2) else deltas[1, 2, 0]
        variation.append(_distance(deltas[order], identity))
        patches = {
            "blind": None,
            "exact": form_patch(deltas[order], "tested", rank),
            "transfer": form_patch(identity, "identity", rank),
            "orbit": form_patch(mean_deficit(others), "others", rank, kind="orbit"),
        }
        reference = probe.reference(window, tail)
        for name, patch in patches.items():
            kv = probe.canonical_and_patch(window, 4, patch)
            kls[name].append(kl(probe.logits(window, {4: kv}, tail), reference))
        _done(probe, progress, "orbit", number, num_items)
    return {
        **{f"eta_{name}": eta(kls[name], kls["blind"]) for name in ("exact", "transfer", "orbit")},
        **{f"kl_{name}": float(np.mean(values)) for name, values in kls.items()},
        "ordering_distance": float(np.mean(variation)),
        "rank": rank,
        "n": num_items,
        "paper": paper_figures(ORBIT, engine.backbone),
    }


def probe_survivor(
    engine: HFEngine, num_items: int, *, rank: int = 16, progress: Progress | None = None
) -> dict[str, Any]:
    """The head legend leaves; what stays is relocated as it was conditioned, or given a removal patch.

    Twice: the item's color is in the legend that stays, and (`told_by_departed`) in the one that left,
    whose digit the survivor still holds.
    """
    stays = _survivor(engine, _items(num_items, 2, 2), rank, progress)
    left = _survivor(engine, _items(num_items, 2, 2, told_by=0), rank, progress)
    told = ("kl_keep", "kl_blind", "eta_keep", "agreement_keep")
    return {
        **stays,
        "told_by_departed": {name: left[name] for name in told},
        "rank": rank,
        "n": num_items,
        "paper": paper_figures(SURVIVOR, engine.backbone),
    }


def _survivor(
    engine: HFEngine, items: Sequence[list[Any]], rank: int, progress: Progress | None
) -> dict[str, Any]:
    probe = Probe(engine, Workbench(engine))
    prefix, tail = engine.frame(binding.QUESTION)
    assert prefix is not None
    kls: dict[str, list[float]] = {"blind": [], "keep": [], "removal": []}
    answers: dict[str, list[int]] = {"blind": [], "keep": [], "reference": []}
    for number, item in enumerate(items):
        first, second, target = probe.chunks(item)
        long, short = [prefix, first, second, target], [prefix, second, target]
        reference = probe.reference(short, tail)
        swaps: dict[str, dict[int, ChunkKV]] = {"blind": {}, "keep": {}, "removal": {}}
        for place in (1, 2):
            kept = _unrotated(probe, long, place + 1)
            start = sum(chunk.extent for chunk in short[:place])
            positions = short[place].layout.at(start)
            wanted = _unrotated(probe, short, place)
            removal = form_patch(deficit(wanted, kept), "removal", rank, kind="removal")
            swaps["blind"][place] = probe.canonical_and_patch(short, place, None)
            swaps["keep"][place] = kept.at(positions, engine.spec)
            swaps["removal"][place] = apply(kept, removal, positions, engine.spec)
        for name, swapped in swaps.items():
            logits = probe.logits(short, swapped, tail)
            kls[name].append(kl(logits, reference))
            if name in answers:
                answers[name].append(int(logits.argmax()))
        answers["reference"].append(int(reference.argmax()))
        _done(probe, progress, "survivor", number, len(items))
    same = np.mean(np.array(answers["keep"]) == np.array(answers["reference"]))
    return {
        "kl_keep": float(np.mean(kls["keep"])),
        "kl_blind": float(np.mean(kls["blind"])),
        "kl_removal": float(np.mean(kls["removal"])),
        "eta_keep": eta(kls["keep"], kls["blind"]),
        "eta_removal": eta(kls["removal"], kls["keep"]),
        "agreement_keep": float(same),
    }


def probe_recall(
    engine: HFEngine, num_items: int, *, rank: int = 32, progress: Progress | None = None
) -> dict[str, Any]:
    """The item leaves, the window turns over, and it is back: its old patch against a fresh one."""
    probe = Probe(engine, Workbench(engine))
    prefix, tail = engine.frame(binding.QUESTION)
    assert prefix is not None
    turnovers = (0.0, 0.5, 1.0)
    kls: dict[str, dict[float, list[float]]] = {
        name: {t: [] for t in turnovers} for name in ("blind", "stale", "fresh")
    }
    answers: dict[str, list[int]] = {"blind": [], "stale": [], "fresh": [], "reference": []}
    for number in range(num_items):
        old, new, item = _turned_over(number)
        target = probe.chunks([item])[0]
        history, fresh_frames = probe.chunks(old), probe.chunks(new)
        stale = form_patch(probe.bench.delta([prefix, *history, target], 3), "old", rank)
        for turnover in turnovers:
            gone = round(turnover * len(history))
            window = [prefix, *history[gone:], *fresh_frames[:gone], target]
            fresh = form_patch(probe.bench.delta(window, 3), "new", rank)
            reference = probe.reference(window, tail)
            for name, patch in (("blind", None), ("stale", stale), ("fresh", fresh)):
                kv = probe.canonical_and_patch(window, 3, patch)
                logits = probe.logits(window, {3: kv}, tail)
                kls[name][turnover].append(kl(logits, reference))
                if turnover == turnovers[-1]:
                    answers[name].append(int(logits.argmax()))
        answers["reference"].append(int(reference.argmax()))
        _done(probe, progress, "recall", number, num_items)
    blind, truth = answers["blind"], answers["reference"]
    return {
        "turnover": list(turnovers),
        "eta_stale": [eta(kls["stale"][t], kls["blind"][t]) for t in turnovers],
        "eta_fresh": [eta(kls["fresh"][t], kls["blind"][t]) for t in turnovers],
        "kl_blind": [float(np.mean(kls["blind"][t])) for t in turnovers],
        "flip_recover_stale": flip_recover(answers["stale"], blind, truth)[0],
        "flip_recover_fresh": flip_recover(answers["fresh"], blind, truth)[0],
        "num_flips": flip_recover(answers["fresh"], blind, truth)[1],
        "rank": rank,
        "n": num_items,
        "paper": paper_figures(RECALL, engine.backbone),
    }


def _rng(number: int) -> np.random.Generator:
    return np.random.default_rng([7, number])


def _items(
    num_items: int, num_frames: int, per_frame: int, *, told_by: int = -1
) -> list[list[Any]]:
    """Legend frames and an item whose color is in one of them, the last unless `told_by` says another."""
    items = []
    for number in range(num_items):
        rng = _rng(number)
        before = legends(rng, "test", num_frames=num_frames, num_entries=num_frames * per_frame)
        colors = [tile.color for tile in before[told_by].tiles]
        items.append([*before, any_item(rng, "test", colors)])
    return items


def _turned_over(number: int) -> tuple[list[Any], list[Any], Any]:
    """Two old and two new legend frames; both give the item's color a digit, another one."""
    rng = _rng(1000 + number)
    while True:
        old = legends(rng, "test", num_frames=2, num_entries=4)
        new = legends(rng, "test", num_frames=2, num_entries=4)
        now = {tile.color: tile.digit for tile in new[1].tiles}
        was = {tile.color: tile.digit for tile in old[0].tiles}
        both = [color for color in now if color in was and now[color] != was[color]]
        if both:
            return old, new, any_item(rng, "test", both)


def _unrotated(probe: Probe, window: Sequence[Chunk], index: int) -> ChunkKV:
    start = sum(chunk.extent for chunk in window[:index])
    placed = probe.bench.conditioned(window, index)
    return placed.to_canonical(window[index].layout.at(start), probe.engine.spec, torch.float32)


def _distance(a: Deficits, b: Deficits) -> float:
    """‖Δπ − Δid‖ / ‖Δid‖ over all channels."""
    gap = sum(float((a[name] - b[name]).square().sum()) for name in a)
    return float((gap / sum(float(b[name].square().sum()) for name in b)) ** 0.5)


def _done(probe: Probe, progress: Progress | None, name: str, number: int, total: int) -> None:
    probe.bench.clear()
    if progress is not None:
        progress(name, number + 1, total)
