"""What Transformers answered (write_reference.py), as the tests read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from places import REFERENCE
from safetensors.torch import load_file
from torch import Tensor

ARMS = ("re-prefill", "blind", "patch 16", "patch full")


@dataclass(frozen=True, eq=False)
class Item:
    """One question over a few images.

    Attributes:
        images: PNG files, in order.
        chunk_num_tokens: the tokens of each chunk, the tail last.
        logprobs: arm -> [vocab], of the answer's token.
    """

    task: str
    images: tuple[Path, ...]
    question: str
    answer_id: int
    prompt_token_ids: tuple[int, ...]
    chunk_num_tokens: tuple[int, ...]
    logprobs: Mapping[str, Tensor]

    @property
    def num_held(self) -> int:
        """Tokens in front of the tail: all that a cache of chunks can hold."""
        return sum(self.chunk_num_tokens[:-1])

    def token(self, arm: str) -> int:
        """The arm's answer."""
        return int(self.logprobs[arm].argmax())

    def text_spans(self) -> list[tuple[int, ...]]:
        """Token ids of the chunks without an image."""
        spans, at = [], 0
        for count in self.chunk_num_tokens[:-1]:
            ids = self.prompt_token_ids[at : at + count]
            if count < MIN_IMAGE_TOKENS:
                spans.append(ids)
            at += count
        return spans


MIN_IMAGE_TOKENS = 16
"""No text chunk of the tasks is as long, no image as short."""


@cache
def items_of(model: str) -> tuple[Item, ...]:
    """Every item of every task, in order."""
    folder = REFERENCE / model
    record = json.loads((folder / "reference.json").read_text())
    assert record["arms"] == list(ARMS), "build/vllm/reference is of another version"
    logprobs = load_file(folder / "logprobs.safetensors")["logprobs"]
    return tuple(
        Item(
            row["task"],
            tuple(folder / name for name in row["images"]),
            row["question"],
            row["answer_id"],
            tuple(row["prompt_token_ids"]),
            tuple(row["chunk_num_tokens"]),
            dict(zip(ARMS, logprobs[number], strict=True)),
        )
        for number, row in enumerate(record["items"])
    )


def some(model: str, each: int) -> list[Item]:
    """The first `each` items of every task."""
    found: dict[str, list[Item]] = {}
    for item in items_of(model):
        found.setdefault(item.task, []).append(item)
    return [item for of_task in found.values() for item in of_task[:each]]


def gap(logprobs: Mapping[int, float], expected: Tensor) -> float:
    """The largest |Δlogprob| over the tokens that the engine told."""
    assert logprobs
    return max(abs(value - float(expected[token])) for token, value in logprobs.items())
