"""What a benchmark is: a folder that is read item by item, and how a response is scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kamera.lab.benchmarks.media import Film, Picture

Part = str | Picture | Film
"""A run of text, an image, or a video: one chunk of the window, or for a film one a frame."""

SHORT = "Answer the question using a single word or phrase."
LETTER = "Answer with the option's letter from the given choices directly."


@dataclass(frozen=True)
class BenchmarkItem:
    """One question.

    Attributes:
        id: the benchmark's own name of it.
        category: what the benchmark reports apart.
        parts: all that stands before `question`, in order. Media are opened when they are asked for.
        question: the text behind the last image or paragraph, choices included.
        choices: what the letters A, B, … stand for; empty for an open question.
        answers: the right answers; for a choice the letter alone.
        instruction: what the benchmark asks about the form of the answer.
    """

    id: str
    category: str
    parts: tuple[Part, ...]
    question: str
    choices: tuple[str, ...]
    answers: tuple[str, ...]
    instruction: str

    @property
    def letters(self) -> tuple[str, ...]:
        """A, B, … for each choice."""
        return letters(len(self.choices))


@dataclass(frozen=True)
class Scored:
    """A response and its score in [0, 1]."""

    item: BenchmarkItem
    response: str
    score: float


class Benchmark(ABC):
    """A benchmark in a local folder. Nothing is read before `items`, and nothing is downloaded."""

    name: ClassVar[str]
    metric: ClassVar[str]
    """What `score` is, in the benchmark's own words."""

    folder: Path

    @abstractmethod
    def items(self) -> Iterator[BenchmarkItem]:
        """The items in the files' order, read as they are asked for.

        Raises:
            ConfigError: a missing or broken file, a row without a field, a missing image or video; the
                message names the file and the row.
        """

    @abstractmethod
    def score(self, item: BenchmarkItem, response: str) -> float:
        """How right a response is, in [0, 1]."""

    def summary(self, scored: Sequence[Scored]) -> dict[str, float]:
        """Figures over many items; `score` is the mean. At least one is expected."""
        return {"score": sum(one.score for one in scored) / len(scored)}


def letters(count: int) -> tuple[str, ...]:
    """A, B, … — as many as there are choices."""
    return tuple(chr(ord("A") + at) for at in range(count))


def with_choices(question: str, choices: Sequence[str]) -> str:
    """The question, and one line a choice: `A. first`."""
    shown = (
        f"{letter}. {choice}" for letter, choice in zip(letters(len(choices)), choices, strict=True)
    )
    return "\n".join([question, *shown])
