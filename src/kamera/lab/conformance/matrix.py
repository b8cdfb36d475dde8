"""The matrix: every entry in every dtype through every check, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kamera.lab.conformance.checks import CHECKS
from kamera.lab.conformance.entry import Entry
from kamera.lab.conformance.measure import Outcome
from kamera.lab.conformance.scheme import words
from kamera.lab.conformance.subject import Subject

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Row:
    """One outcome, and of what.

    Attributes:
        rope: the rotary scheme in words, with the entry's variant.
        chunk: the kind of chunk B.
        group: the check's file.
    """

    entry: Entry
    rope: str
    dtype: str
    chunk: str
    group: str
    outcome: Outcome

    def to_dict(self) -> dict[str, Any]:
        """As the report holds it. A control is `ok` when its error lies far above the bound."""
        return {
            "family": self.entry.model_type,
            "model_class": self.entry.model_class,
            "weights": self.entry.weights,
            "rope": self.rope,
            "dtype": self.dtype,
            "chunk": self.chunk,
            "check": self.outcome.check,
            "error": self.outcome.error,
            "bound": self.outcome.bound,
            "control": self.outcome.is_control,
            "ok": self.outcome.ok,
        }


def rows_of(entry: Entry, dtype: str) -> Iterator[Row]:
    """Every check on one entry. What can't be made or run is a row too, and not ok."""
    try:
        for chunk, subject in entry.subjects(DTYPES[dtype]):
            rope = words(subject.rope) + (f", {entry.variant}" if entry.variant else "")
            for group, outcome in outcomes_of(subject):
                yield Row(entry, rope, dtype, chunk, group, outcome)
    except Exception as error:
        yield Row(entry, entry.variant, dtype, "", "made", failed("made", error))


def outcomes_of(subject: Subject) -> Iterator[tuple[str, Outcome]]:
    """Every check on one subject, by the check's file."""
    for group, check in CHECKS.items():
        try:
            outcomes: Sequence[Outcome] = check(subject)
        except Exception as error:
            outcomes = [failed(group, error)]
        for outcome in outcomes:
            yield group, outcome


def failed(what: str, error: Exception) -> Outcome:
    """A check that raised: it says why, and isn't ok."""
    return Outcome(f"{what}: {type(error).__name__}: {error}", 1.0, 0.0)
