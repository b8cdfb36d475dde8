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


def images_of(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The images of a chat request, in the order in which they are rendered.

    Raises:
        ConfigError: a part of a kind that isn't served, or an image part without an image.
    """
    found = []
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type")
            if kind == "image":
                if part.get("image") is None:
                    raise ConfigError(
                        "Image part without an image: expected {'type': 'image', 'image': a PIL "
                        f"image or a path}}, got the keys {sorted(part)}"
                    )
                found.append(part["image"])
            elif kind != "text":
                raise ConfigError(f"Unsupported part {kind!r}: expected 'text' or 'image'")
    return found
