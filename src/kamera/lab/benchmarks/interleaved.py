"""A text with image markers -> parts in order, and the text behind the last image."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kamera.errors import ConfigError
from kamera.lab.benchmarks.contract import Part
from kamera.lab.benchmarks.media import Picture

IMAGE = "<image>"


def interleaved(text: str, pictures: Sequence[Picture], place: str) -> tuple[tuple[Part, ...], str]:
    """Put the pictures where the text says `<image>`, in order.

    Raises:
        ConfigError: another number of markers than of pictures.
    """
    texts = text.split(IMAGE)
    if len(texts) - 1 != len(pictures):
        raise ConfigError(
            f"{place}: {len(texts) - 1} times {IMAGE} for {len(pictures)} images: expected one each"
        )
    return _joined(texts, pictures)


def numbered(text: str, pictures: Sequence[Picture], place: str) -> tuple[tuple[Part, ...], str]:
    """Put picture n where the text says `{image#n}` or `{table#n}`, n from 1.

    Raises:
        ConfigError: a number that no picture has, or a picture that the text doesn't name.
    """
    pieces = re.split(r"\{(?:image|table)#(\d+)\}", text)
    numbers = [int(number) for number in pieces[1::2]]
    if set(numbers) != set(range(1, len(pictures) + 1)):
        raise ConfigError(
            f"{place}: the text names the images {numbers}: expected each of 1 to {len(pictures)}"
        )
    return _joined(pieces[::2], [pictures[number - 1] for number in numbers])


def _joined(texts: Sequence[str], pictures: Sequence[Picture]) -> tuple[tuple[Part, ...], str]:
    parts: list[Part] = []
    for text, picture in zip(texts[:-1], pictures, strict=True):
        parts.extend([text, picture] if text else [picture])
    return tuple(parts), texts[-1]
