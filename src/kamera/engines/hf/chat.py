"""A chat request -> chunks and a tail, spliced by token ids.

The rendered text is tokenized in pieces cut at the vision wrappers. These are special tokens, which no BPE
merge crosses, so the pieces' ids, one after another, are the ids of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kamera.engines.hf.families import Family
from kamera.errors import ConfigError


def split_text(rendered: str, family: Family) -> list[str]:
    """Cut around each wrapped image; images and the text between alternate as they stand."""
    wrapped = re.escape(family.vision_start + family.image_pad + family.vision_end)
    return [piece for piece in re.split(f"({wrapped})", rendered) if piece]


def check_text(text: Any) -> None:
    """Refuse what a template would render as something else, and what no tokenizer reads.

    Raises:
        ConfigError: not a string, or one that isn't valid Unicode.
    """
    if not isinstance(text, str):
        raise ConfigError(f"Not a text: expected a string, got {type(text).__qualname__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"Invalid text {text!r:.80}: expected valid Unicode, {error}") from None


def images_of(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The images of a chat request, in the order in which they are rendered.

    Raises:
        ConfigError: no message, one of another form than role and content, a part of a kind that isn't
            served, or an image part without an image.
    """
    if not isinstance(messages, list | tuple) or not messages:
        raise ConfigError(
            f"Invalid messages: expected a list of at least one, got {messages!r:.80}"
        )
    found = []
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ConfigError(
                f"Invalid message: expected a mapping with a role and content, got {message!r:.80}"
            )
        content = message.get("content")
        if not isinstance(content, list):
            check_text(content)  # a template renders some other things as nothing at all
            continue
        for part in content:
            if not isinstance(part, Mapping):
                raise ConfigError(f"Invalid part: expected a mapping with a type, got {part!r:.80}")
            kind = part.get("type")
            if kind == "image":
                if part.get("image") is None:
                    raise ConfigError(
                        "Image part without an image: expected {'type': 'image', 'image': a PIL "
                        f"image or a path}}, got the keys {sorted(part)}"
                    )
                found.append(part["image"])
            elif kind == "text":
                check_text(part.get("text"))
            else:
                raise ConfigError(f"Unsupported part {kind!r}: expected 'text' or 'image'")
    return found
