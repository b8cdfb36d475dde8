"""The arms of Tables 3 and 5, which take tasks that no other table does: fewer than all, to be quick."""

from __future__ import annotations

from collections.abc import Sequence

from kamera.arms import Arm, Blind, Patched, Reprefill, Workbench
from kamera.arms.cacheblend import CacheBlend
from kamera.arms.layer_reprefill import LayerReprefill
from kamera.arms.sink import Sink
from kamera.arms.vlcache import VLCache
from kamera.lab.evaluation import Tally
from kamera.lab.reproductions.subject import Subject

PAPER_RANKS = (16, 64)


def few_arms(bench: Workbench) -> Sequence[Arm]:
    """References, patches of the paper's ranks, and the rivals that Tables 3 and 5 name."""
    return [
        *rank_arms(bench),
        CacheBlend(bench, 0.15),
        VLCache(bench, 0.10),
        Sink(bench),
        LayerReprefill(bench, 1),
        LayerReprefill(bench, 3),
    ]


def rank_arms(bench: Workbench) -> Sequence[Arm]:
    """References, and patches of the paper's ranks."""
    return [
        Reprefill(bench.engine),
        Blind(bench),
        *(Patched(bench, rank) for rank in PAPER_RANKS),
    ]


def few_tallies(subject: Subject, task: str) -> dict[str, Tally]:
    """A task under few arms, on half of the items; the needle, which has the most tokens, on a quarter."""
    count = subject.num_cases if task == "needle" else half(subject)
    return subject.some_tallies(task, few_arms, count)


def half(subject: Subject) -> int:
    """Of the items; at least two."""
    return max(2, subject.num_items // 2)


def rank_tallies(subject: Subject, task: str) -> dict[str, Tally]:
    """A task under patches of the paper's ranks, on half of the items."""
    return subject.some_tallies(task, rank_arms, half(subject))
