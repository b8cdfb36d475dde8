"""Training sequences for the language stage: windows of pooled frames, then question and answer turns.

All sequences of one batch share a layout (frame kinds and question order), so nothing is padded.
Positions are the family's, with a random start offset. Dense targets name, for the tokens of a later
frame, what its KV should have bound from the frames before it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kamera.lab.nano.family import Family
from kamera.lab.nano.frame_pool import IGNORE
from kamera.lab.tasks import binding, needle, readout, shell_game
from kamera.lab.tasks.frames import Frame
from kamera.lab.tasks.task import DIGITS, NONE

DIGIT_CLASSES = (*DIGITS, NONE)
CUP_CLASSES = ("left", "middle", "right", NONE)
MAX_OFFSET = 4096


@dataclass
class Example:
    """One sequence before it is laid out: rows of pools, dense targets per frame, question turns."""

    rows: list[tuple[str, int]]
    dense: list[tuple[str, int]]  # per frame: ("digit"|"cup"|"", class)
    turns: list[tuple[str, str]]


@dataclass
class Batch:
    """Sequences of one layout: `ids`, targets `[B, S]`, `vision [B, V, hidden * (1 + levels)]`.

    `positions` are `[3, B, S]` or `[B, S]`.

    `spans` are the tokens where the frames begin, where the last frame begins, and where it ends.
    """

    ids: Tensor
    positions: Tensor
    vision: Tensor
    is_vision: Tensor
    labels: Tensor
    digit: Tensor
    cup: Tensor
    cup_depth: Tensor
    spans: tuple[int, int, int]

    @property
    def binds_last(self) -> bool:
        """Whether the last frame is the one that binds."""
        last = self.spans[2] - 1
        return bool(self.digit[0, last] != IGNORE or self.cup[0, last] != IGNORE)

    def question_mask(self) -> Tensor:
        """[1, 1, S, S], additive: causal, and what follows the last frame can't see those before it."""
        size = self.ids.shape[1]
        first, last, end = self.spans
        mask = torch.full((size, size), float("-inf")).triu(1)
        mask[end:, first:last] = float("-inf")
        return mask[None, None]


class Sampler:
    """Draws examples from the pools by kind."""

    def __init__(self, pools: dict[str, Any], rng: np.random.Generator) -> None:
        self.pools, self.rng = pools, rng
        self.colors = [
            frozenset(tile.color for tile in frame.tiles) for frame in pools["legend"].frames
        ]
        stars = [frame.starred for frame in pools["needle"].frames]
        self.starred = np.flatnonzero(stars)
        self.plain = np.flatnonzero(~np.array(stars))
        self.by_color: dict[str, np.ndarray] = {}
        colors = np.array([frame.color for frame in pools["item"].frames])
        for color in set(colors.tolist()):
            self.by_color[color] = np.flatnonzero(colors == color)
        self.balls = np.flatnonzero([frame.kind == "ball" for frame in pools["shell"].frames])
        self.swaps = np.flatnonzero([frame.kind == "swap" for frame in pools["shell"].frames])

    def pick(self, rows: np.ndarray) -> int:
        return int(rows[self.rng.integers(len(rows))])

    def legends(self, count: int) -> list[int]:
        """Legend frames that share no color."""
        chosen: list[int] = []
        used: frozenset[str] = frozenset()
        while len(chosen) < count:
            row = int(self.rng.integers(len(self.colors)))
            if not used & self.colors[row] and len(used | self.colors[row]) <= 7:
                chosen.append(row)
                used |= self.colors[row]
            elif self.rng.integers(50) == 0:
                chosen, used = [], frozenset()
        return chosen

    def binding(self, kinds: list[str], questions: list[str]) -> Example:
        """`kinds` lists legend, needle (a distractor) and item frames in window order."""
        legends = self.legends(kinds.count("legend"))
        known = [c for row in legends for c in self.colors[row]]
        if known and self.rng.random() < 0.88:
            item = self.pick(self.by_color[known[int(self.rng.integers(len(known)))]])
        else:
            item = int(self.rng.integers(len(self.pools["item"].frames)))
        picture = self.pools["item"].frames[item]
        rows: list[tuple[str, int]] = []
        dense: list[tuple[str, int]] = []
        before: list[Frame] = []
        bound = NONE
        for kind in kinds:
            if kind == "legend":
                rows.append(("legend", legends[len(before)]))
                before.append(self.pools["legend"].frames[rows[-1][1]])
            elif kind == "item":
                rows.append(("item", item))
                bound = binding.bound_digit(before, picture)
            else:
                rows.append(("needle", self.pick(self.plain)))
            dense.append(("digit", DIGIT_CLASSES.index(bound)) if kind == "item" else ("", IGNORE))
        answers = {
            binding.QUESTION: bound,
            readout.COLOR_QUESTION: picture.color,
            readout.SHAPE_QUESTION: picture.shape,
        }
        return Example(rows, dense, [(q, answers[q]) for q in questions])

    def needle(self, count: int, at: int) -> Example:
        rows = [
            ("needle", self.pick(self.starred if i == at else self.plain)) for i in range(count)
        ]
        digit = str(self.pools["needle"].frames[rows[at][1]].digit)
        return Example(rows, [("", IGNORE)] * count, [(needle.QUESTION, digit)])

    def shell(self, count: int, with_ball: bool) -> Example:
        rows = [
            ("shell", self.pick(self.balls if i == 0 and with_ball else self.swaps))
            for i in range(count)
        ]
        states = shell_game.states([self.pools["shell"].frames[row] for _, row in rows])
        dense = [("cup", CUP_CLASSES.index(state)) for state in states]
        return Example(rows, dense, [(shell_game.QUESTION, states[-1])])


class Layout:
    """Turns examples of one layout into a batch, in a family's chat format and positions."""

    def __init__(self, tokenizer: Any, pools: dict[str, Any], family: Family) -> None:
        self.tokenizer, self.pools, self.family = tokenizer, pools, family
        self.pad = tokenizer.convert_tokens_to_ids(family.chat.pad)
        self.cache: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        if text not in self.cache:
            self.cache[text] = list(self.tokenizer(text).input_ids) if text else []
        return self.cache[text]

    def tokens_of(self, pool: str) -> int:
        """How many merged tokens a frame of this pool has."""
        return int(self.pools[pool].embeddings.shape[1])

    def batch(self, examples: list[Example], *, prefix: bool, offset: int, after: str) -> Batch:
        """`offset` is the first position; `after` is one of the chat format's."""
        rows = [self._one(example, prefix, offset, after) for example in examples]
        stack = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
        positions = stack["positions"].permute(2, 0, 1)
        return Batch(
            ids=stack["ids"],
            positions=positions if self.family.mrope else positions[0],
            vision=stack["vision"],
            is_vision=stack["ids"] == self.pad,
            labels=stack["labels"],
            digit=stack["digit"],
            cup=stack["cup"],
            cup_depth=stack["cup_depth"],
            spans=self._spans(examples[0], prefix, after),
        )

    def _spans(self, example: Example, prefix: bool, after: str) -> tuple[int, int, int]:
        wrapper = len(self.encode(self.family.chat.before)) + len(self.encode(after))
        sizes = [wrapper + self.tokens_of(pool) for pool, _ in example.rows]
        first = len(self.encode(self.family.chat.opening)) if prefix else 0
        return first, first + sum(sizes[:-1]), first + sum(sizes)

    def _one(self, example: Example, prefix: bool, offset: int, after: str) -> dict[str, Tensor]:
        chat = self.family.chat
        row = _Row(offset, self.pad, self.family.mrope)
        if prefix:
            row.text(self.encode(chat.opening))
        for number, ((pool, index), dense) in enumerate(
            zip(example.rows, example.dense, strict=True)
        ):
            row.text(self.encode(chat.before))
            row.frame(self.pools[pool].embeddings[index], dense, number)
            row.text(self.encode(after))
            row.close_frame(dense, number)
        for turn, (question, answer) in enumerate(example.turns):
            row.text(self.encode(f"{chat.turn if turn else ''}{question}{chat.answer}"))
            row.answer(self.encode(f"{answer}{chat.end}"))
        return row.tensors()


class _Row:
    """One sequence as it grows, token by token."""

    def __init__(self, offset: int, pad: int, mrope: bool) -> None:
        self.pad, self.mrope, self.at = pad, mrope, offset
        self.ids: list[int] = []
        self.positions: list[tuple[int, int, int]] = []
        self.vision: list[Tensor] = []
        self.labels: list[int] = []
        self.digit: list[int] = []
        self.cup: list[int] = []
        self.depth: list[int] = []

    def text(self, tokens: list[int]) -> None:
        self.ids.extend(tokens)
        self.positions.extend((self.at + i,) * 3 for i in range(len(tokens)))
        self.at += len(tokens)
        for column in (self.labels, self.digit, self.cup, self.depth):
            column.extend([IGNORE] * len(tokens))

    def frame(self, features: Tensor, dense: tuple[str, int], number: int) -> None:
        kind, target = dense
        count = len(features)
        self.vision.append(features)
        self.ids.extend([self.pad] * count)
        if self.mrope:
            side = int(count**0.5)
            cells = [(self.at, self.at + h, self.at + w) for h in range(side) for w in range(side)]
            self.positions.extend(cells)
            self.at += side
        else:
            self.positions.extend((self.at + i,) * 3 for i in range(count))
            self.at += count
        self.labels.extend([IGNORE] * count)
        self.digit.extend([target if kind == "digit" else IGNORE] * count)
        self.cup.extend([target if kind == "cup" else IGNORE] * count)
        self.depth.extend([number] * count)

    def close_frame(self, dense: tuple[str, int], number: int) -> None:
        """The frame's last token, whatever it is, is asked too."""
        kind, target = dense
        for column, name in ((self.digit, "digit"), (self.cup, "cup")):
            if kind == name:
                column[-1] = target
        self.depth[-1] = number

    def answer(self, said: list[int]) -> None:
        """The answer's token, asked of the token before it, and what ends it, asked of the answer."""
        self.labels[-1] = said[0]
        self.text(said[:1])
        self.labels[-1] = said[1]

    def tensors(self) -> dict[str, Tensor]:
        return {
            "ids": torch.tensor(self.ids),
            "positions": torch.tensor(self.positions),
            "vision": torch.cat(self.vision),
            "labels": torch.tensor(self.labels),
            "digit": torch.tensor(self.digit),
            "cup": torch.tensor(self.cup),
            "cup_depth": torch.tensor(self.depth),
        }
