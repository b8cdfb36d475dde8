"""`Vocabulary`: what a config asks of a tokenizer; and one by character, with special tokens at fixed ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

VOCAB_SIZE = 224

_FIRST_SPECIAL = 160
_SPECIALS = (
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
    "<|vision_bos|>",
    "<|vision_eos|>",
    "<|IMAGE|>",
    "<|VIDEO|>",
    "<|AUDIO|>",
    "<|audio_bos|>",
    "<|audio_eos|>",
    "<|begin_of_image|>",
    "<|end_of_image|>",
    "<|image|>",
    "<|begin_of_video|>",
    "<|end_of_video|>",
    "<|video|>",
    "<|IMAGE_START|>",
    "<|IMAGE_END|>",
    "<|IMAGE_PLACEHOLDER|>",
    "<|media_begin|>",
    "<|media_content|>",
    "<|media_pad|>",
    "<|media_end|>",
    "<image_placeholder>",
    "<img>",
    "</img>",
    "<IMG_CONTEXT>",
    "<image>",
    "<video>",
    "<start_of_image>",
    "<end_of_image>",
    "<image_soft_token>",
    "<fake_token_around_image>",
    "<global-img>",
    "<row_1_col_1>",
    "<row_1_col_2>",
    "<|kimi_k25_video_placeholder|>",
)
_CHARACTERS = 100
_PIECE = re.compile("|".join(map(re.escape, _SPECIALS)) + "|.", re.DOTALL)


def token_id(token: str) -> int:
    """The id of a special token; ValueError for one that isn't listed."""
    return _FIRST_SPECIAL + _SPECIALS.index(token)


def encode(text: str) -> tuple[int, ...]:
    """Token ids of a text: special tokens whole, the rest by character."""
    return tuple(
        token_id(piece) if len(piece) > 1 else 8 + ord(piece) % _CHARACTERS
        for piece in _PIECE.findall(text)
    )


@dataclass(frozen=True)
class Vocabulary:
    """What a config has to know of a tokenizer. Padding, start and end are 0, 1 and 2 in each.

    Attributes:
        size: rows of the embedding table.
        token_id: the id of a special token; an error for one that isn't there.
    """

    size: int
    token_id: Callable[[str], int]


BY_CHARACTER = Vocabulary(VOCAB_SIZE, token_id)
"""Of the tiny models that are given their chunks as ids."""


class Characters:
    """Its tokenizer: as much of one as an engine asks for that is given its chunks."""

    eos_token_id = None

    @property
    def added_tokens_decoder(self) -> dict[int, str]:
        """The special tokens by id."""
        return {token_id(token): token for token in _SPECIALS}

    def __call__(self, text: str, *, add_special_tokens: bool) -> SimpleNamespace:
        """`input_ids` of a text; no start token is ever added."""
        return SimpleNamespace(input_ids=list(encode(text)))

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Characters share ids: there is no way back, and so no text."""
        return ""
