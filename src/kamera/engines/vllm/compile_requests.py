"""The file that `kamera compile` reads: one chat request a line, images as `data:` urls or files."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kamera.errors import ConfigError

MAX_IMAGE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class ChatLine:
    """One line: the body of a request to /v1/chat/completions, whose images may still be files.

    Attributes:
        number: of the line, from 1.
        folder: what relative paths start from.
    """

    number: int
    body: dict[str, Any]
    folder: Path

    def loaded(self) -> dict[str, Any]:
        """The body with every file read into a `data:` url, as a client would have sent it.

        Raises:
            ConfigError: a file that can't be read any more.
        """
        body = copy.deepcopy(self.body)
        for holder, key in _urls(self.number, body["messages"]):
            if not _is_data(holder[key]):
                path = self.folder / holder[key]
                try:
                    content = base64.b64encode(path.read_bytes()).decode()
                except OSError as error:
                    raise ConfigError(
                        f"Line {self.number}: can't read {path}: {error.strerror}"
                    ) from error
                holder[key] = f"data:image/{path.suffix[1:].lower() or 'png'};base64,{content}"
        return body


def read_lines(file: Path) -> list[ChatLine]:
    """All lines, each checked as far as that goes without the engine; blank ones are passed over.

    Raises:
        ConfigError: the file, or a line by its number: what was expected, and what was there.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"Can't read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} isn't UTF-8: expected one JSON object a line") from error
    lines = [
        _line(number, line, file.parent)
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if not lines:
        raise ConfigError(f'{file} is empty: expected lines like {{"messages": [...]}}')
    return lines


def _line(number: int, text: str, folder: Path) -> ChatLine:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"Line {number} isn't JSON: {error}") from error
    if not isinstance(body, dict):
        raise ConfigError(
            f'Line {number}: expected an object like {{"messages": [...]}}, got {type(body).__name__}'
        )
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ConfigError(
            f"Line {number}: expected messages, a list of chat messages, got {_shown(messages)}"
        )
    line = ChatLine(number, body, folder)
    for holder, key in _urls(number, messages):
        _check_url(line, holder[key])
    return line


def _urls(number: int, messages: list[Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Where each image's url stands: the object that holds it, and under which key."""
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ConfigError(
                f"Line {number}: expected messages with a role, got {_shown(message)}"
            )
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if not isinstance(part, dict):
                raise ConfigError(f"Line {number}: expected parts with a type, got {_shown(part)}")
            if "image_url" not in part:
                continue
            image = part["image_url"]
            holder, key = (image, "url") if isinstance(image, dict) else (part, "image_url")
            if not isinstance(holder.get(key), str) or not holder[key]:
                raise ConfigError(
                    f"Line {number}: expected image_url with a url, got {_shown(image)}"
                )
            yield holder, key


def _check_url(line: ChatLine, url: str) -> None:
    if _is_data(url):
        return
    if "://" in url[:12]:
        raise ConfigError(
            f"Line {line.number}: expected an image's data: url or its file's path, got {_shown(url)}; "
            "nothing is downloaded"
        )
    path = line.folder / url
    try:
        size = path.stat().st_size if path.is_file() else None
    except (OSError, ValueError):  # a name that can't be a file's
        size = None
    if size is None:
        raise ConfigError(f"Line {line.number}: no such file: {_shown(str(path))}")
    if size > MAX_IMAGE_BYTES:
        raise ConfigError(
            f"Line {line.number}: {path} has {size:,} bytes: expected an image of at most "
            f"{MAX_IMAGE_BYTES:,}"
        )


def _is_data(url: str) -> bool:
    return url[:5].lower() == "data:"


def _shown(value: object) -> str:
    text = " ".join(repr(value)[:80].split())
    return text if len(repr(value)) <= 80 else text + "…"
