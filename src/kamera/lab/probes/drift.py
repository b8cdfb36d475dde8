"""How far may the antecedent drift before a stored patch must be rebuilt? (paper Appendix D)

B is an item picture behind K = 3 legend frames, one of which tells the digit of its color. What is in front
of it changes; the patch that was formed before is tried on the window that is there now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from kamera.arms import Workbench
from kamera.arms.token_arm import Choice
from kamera.channels import ChunkKV, concat
from kamera.chunk import Chunk
from kamera.engines.hf import HFEngine
from kamera.lab.evaluation import Progress
from kamera.lab.probes.basis_transfer import Basis, learn_basis, project
from kamera.lab.probes.case import Case
from kamera.lab.probes.outcome import Outcome
from kamera.lab.probes.windows import Probe
from kamera.lab.tasks.draw import any_item, legends
from kamera.lab.tasks.frames import Frame
from kamera.lab.tasks.sources import Split
from kamera.patch import Patch, form_patch

NUM_FRAMES = 3
PERTURBATIONS = ("reorder", "drop", "replace one", "replace teller", "replace all")
DISTRACTORS = (0, 1, 2, 3)
DEEP = 0.75
"""Of the layers, from the deepest: recomputed by the deep refresh. The shallow one has the rest."""


@dataclass(frozen=True)
class Drift:
    """What one item is drawn from.

    Attributes:
        old, new: K legend frames each; in both, frame `teller` gives the item's color a digit, another one.
        distractors: K legend frames that say nothing of its color.
        item: the picture.
    """

    old: tuple[Frame, ...]
    new: tuple[Frame, ...]
    distractors: tuple[Frame, ...]
    item: Frame
    teller: int


def drawn(number: int, split: Split = "test") -> Drift:
    """The same number gives the same item."""
    rng = np.random.default_rng([11, number, split == "train"])
    while True:
        old, new, other = (
            tuple(legends(rng, split, num_frames=NUM_FRAMES, num_entries=4)) for _ in range(3)
        )
        untold = {tile.color for frame in other for tile in frame.tiles}
        for teller in rng.permutation(NUM_FRAMES):
            was, now = (
                {tile.color: tile.digit for tile in frames[teller].tiles} for frames in (old, new)
            )
            colors = [c for c in was if c in now and was[c] != now[c] and c not in untold]
            if colors:
                return Drift(old, new, other, any_item(rng, split, colors), int(teller))


def perturbed(drift: Drift, kind: str, number: int) -> list[Frame]:
    """The predecessors as they are now, as many as before.

    reorder         another order
    drop            one that doesn't tell is dropped, and the other such one is there twice
    replace one     one that doesn't tell gives way to another clip's
    replace teller  the one that tells gives way to one that tells another digit
    replace all     all give way
    """
    rng = np.random.default_rng([12, number])
    frames = list(drift.old)
    silent = [place for place in range(NUM_FRAMES) if place != drift.teller]
    one, other = (int(place) for place in rng.permutation(silent))
    if kind == "reorder":
        turn = int(rng.integers(1, NUM_FRAMES))
        return frames[turn:] + frames[:turn]
    if kind == "replace all":
        return list(drift.new)
    if kind == "drop":
        frames[one] = drift.old[other]
    else:
        place = drift.teller if kind == "replace teller" else one
        frames[place] = drift.new[place]
    return frames


def divergent_items(
    engine: HFEngine, num_items: int, *, rank: int = 16, progress: Progress | None = None
) -> dict[str, Outcome]:
    """Perturbation -> `blind`, `stale` (the patch from before), `exact` (its own patch).

    `deficits` has `divergence`: 1 - cosine of the two antecedents' vision embeddings, token for token.
    """
    found = {kind: Outcome(deficits={"divergence": []}) for kind in PERTURBATIONS}
    probe = Probe(engine, Workbench(engine))
    prefix, tail = probe.frame()
    index = len(prefix) + NUM_FRAMES
    for number in range(num_items):
        drift = drawn(number)
        (target,) = probe.chunks([drift.item])
        before = probe.chunks(drift.old)
        stale = form_patch(probe.bench.delta([*prefix, *before, target], index), "old", rank)
        for kind, outcome in found.items():
            now = probe.chunks(perturbed(drift, kind, number))
            window = [*prefix, *now, target]
            exact = form_patch(probe.bench.delta(window, index), "new", rank)
            patches: dict[str, Patch | None] = {"blind": None, "stale": stale, "exact": exact}
            reference = probe.reference(window, tail)
            outcome.add(reference, probe.under_patches(window, index, patches, tail))
            outcome.deficits["divergence"].append(divergence(probe.bench, before, now))
        _done(probe, progress, "divergent antecedents", number, num_items)
    return found


def divergence(bench: Workbench, before: Sequence[Chunk], now: Sequence[Chunk]) -> float:
    """1 - cosine of their vision embeddings at matched places, mean over the tokens."""
    pairs = []
    for old, new in zip(before, now, strict=True):
        vision = bench.vision([old, new])
        assert old.media is not None
        assert new.media is not None
        one, two = vision[old.media.digest].float(), vision[new.media.digest].float()
        pairs.append(torch.cosine_similarity(one, two, dim=-1))
    return float(1 - torch.cat(pairs).mean())


def superset_items(
    engine: HFEngine, num_items: int, *, rank: int = 16, progress: Progress | None = None
) -> dict[int, Outcome]:
    """d -> `blind`, `stale` (formed on X and Y alone), `rebuilt` (formed with the distractors present).

    d distractors stand in front of X and Y, and B is relocated behind them.
    """
    found = {d: Outcome() for d in DISTRACTORS}
    probe = Probe(engine, Workbench(engine))
    prefix, tail = probe.frame()
    for number in range(num_items):
        drift = drawn(number)
        (target,) = probe.chunks([drift.item])
        silent = drift.old[(drift.teller + 1) % NUM_FRAMES]
        pair = probe.chunks([drift.old[drift.teller], silent])
        excess = probe.chunks(drift.distractors)
        alone = [*prefix, *pair, target]
        stale = form_patch(probe.bench.delta(alone, len(alone) - 1), "X, Y", rank)
        for d, outcome in found.items():
            window = [*prefix, *excess[:d], *pair, target]
            index = len(window) - 1
            rebuilt = form_patch(probe.bench.delta(window, index), "superset", rank)
            patches: dict[str, Patch | None] = {"blind": None, "stale": stale, "rebuilt": rebuilt}
            reference = probe.reference(window, tail)
            outcome.add(reference, probe.under_patches(window, index, patches, tail))
        _done(probe, progress, "superset", number, num_items)
    return found


def refresh_items(
    engine: HFEngine,
    num_items: int,
    *,
    rank: int = 32,
    num_learned: int = 8,
    progress: Progress | None = None,
) -> dict[int, Outcome]:
    """d -> ways to refresh B when d of its predecessors were swapped for another clip's.

    blind    no patch
    stale    the patch from before
    update   a patch of `rank` on what is there now
    rebuild  the same at full rank
    deep     the deepest three quarters of the layers recomputed in context, the others stale
    shallow  the other quarter recomputed in context, the deep layers stale
    basis    Δ projected on `rank` directions learned on other items
    """
    found = {d: Outcome() for d in DISTRACTORS}
    probe = Probe(engine, Workbench(engine))
    prefix, tail = probe.frame()
    index = len(prefix) + NUM_FRAMES
    basis = _learned(probe, num_learned, rank)
    for number in range(num_items):
        drift = drawn(number)
        (target,) = probe.chunks([drift.item])
        old, new = probe.chunks(drift.old), probe.chunks(drift.new)
        stale = form_patch(probe.bench.delta([*prefix, *old, target], index), "old", rank)
        order = np.random.default_rng([13, number]).permutation(NUM_FRAMES).tolist()
        for d, outcome in found.items():
            now = [new[at] if at in order[:d] else old[at] for at in range(NUM_FRAMES)]
            window = [*prefix, *now, target]
            delta = probe.bench.delta(window, index)
            patches: dict[str, Patch | None] = {
                "blind": None,
                "stale": stale,
                "update": form_patch(delta, "new", rank),
                "rebuild": form_patch(delta, "new"),
                "basis": project(delta, basis),
            }
            logits = probe.under_patches(window, index, patches, tail)
            for name in ("deep", "shallow"):
                kv = refreshed(probe, window, index, stale, deep=name == "deep")
                logits[name] = probe.logits(window, {index: kv}, tail)
            outcome.add(probe.reference(window, tail), logits)
        _done(probe, progress, "refresh", number, num_items)
    return found


def refreshed(
    probe: Probe, window: Sequence[Chunk], index: int, stale: Patch, *, deep: bool
) -> ChunkKV:
    """B's placed KV with its deep (or only its shallow) layers recomputed in context, the others stale.

    What enters the first deep layer are the hidden states that B has alone, as in the arm `layers`.
    """
    bench = probe.bench
    held = [bench.conditioned(window, at) for at in range(len(window))]
    held[index] = probe.canonical_and_patch(window, index, stale)
    first = round((1 - DEEP) * held[index].num_layers)
    start = sum(chunk.num_tokens for chunk in window[:index])
    end = start + window[index].num_tokens
    choice = Choice(_cells(concat(held), start, end, first, deep=deep))
    vision = bench.vision(window)
    inputs = (first, bench.open.layer_inputs(window[index], vision, first)) if deep else None
    if not choice.rows.any():  # too few layers for a shallow quarter
        return held[index]
    out = bench.open.recompute(
        window, vision, concat(held), choice.rows, choice.keep, inputs=inputs
    )
    return out.kv.slice_tokens(start, end)


def _cells(kv: ChunkKV, start: int, end: int, first: int, *, deep: bool) -> Bool[Tensor, "L T"]:
    """B's tokens, in the layers from `first` on or in those before it."""
    layers = (torch.arange(kv.num_layers) >= first) == deep
    steps = torch.arange(kv.num_tokens)
    return layers[:, None] & ((steps >= start) & (steps < end))


def _learned(probe: Probe, num_learned: int, rank: int) -> Basis:
    """Directions of train items in windows of the same kind."""
    prefix, tail = probe.frame()

    def each() -> Any:
        for number in range(num_learned):
            drift = drawn(number, "train")
            chunks = (*prefix, *probe.chunks([*drift.old, drift.item]))
            yield Case(probe.bench, chunks, len(chunks) - 1, tail)
            probe.bench.clear()

    return learn_basis(each(), rank)


def _done(probe: Probe, progress: Progress | None, name: str, number: int, total: int) -> None:
    probe.bench.clear()
    if progress is not None:
        progress(name, number + 1, total)
