"""The window operations of one subject, each measured once: Tables 1 and 2 take them."""

from __future__ import annotations

from kamera.lab.probes.outcome import Outcome
from kamera.lab.probes.windows import orbit_items, recall_items, survivor_items
from kamera.lab.reproductions.subject import Subject

RECALL_RANK = 32
REMOVAL_RANKS = (4, 64)
ORBIT_RANK = 16


def recall(subject: Subject) -> dict[float, Outcome]:
    """Turnover -> blind, stale, fresh. The first new legend tells, so that blind has a gap at each."""
    found: dict[float, Outcome] = subject.once(
        "recall",
        lambda: recall_items(
            subject.engine, subject.num_cases, rank=RECALL_RANK, told_by=0, progress=subject.tell
        ),
    )
    return found


def survivor(subject: Subject, *, told_by_departed: bool = False) -> Outcome:
    """Blind, keep, removal; the item's color is in the legend that stays, or in the one that left."""
    found: Outcome = subject.once(
        ("survivor", told_by_departed),
        lambda: survivor_items(
            subject.engine,
            subject.num_cases,
            ranks=REMOVAL_RANKS,
            told_by=0 if told_by_departed else -1,
            progress=subject.tell,
        ),
    )
    return found


def orbit(subject: Subject) -> Outcome:
    """Blind, exact, transfer, orbit over three legends."""
    found: Outcome = subject.once(
        "orbit",
        lambda: orbit_items(
            subject.engine, subject.num_cases, rank=ORBIT_RANK, progress=subject.tell
        ),
    )
    return found
