"""A chat request -> its media, and token ids cut at them.

The rendered text is tokenized whole and cut at the markers' ids. Markers are special tokens, which no merge
crosses, so the pieces' ids, one after another, are the ids of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from kamera.engines.hf.audio import Audio
from kamera.engines.hf.videos import Video
from kamera.errors import ConfigError

Ids = tuple[int, ...]


def render(tokenizer: Any, messages: Sequence[Mapping[str, Any]]) -> str:
    """The chat template's text, up to where the assistant speaks.

    Raises:
        ConfigError: the checkpoint has no chat template, or its template refuses the messages.
    """
    try:
        text = tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
    except (ValueError, TemplateError) as error:
        raise ConfigError(
            f"Can't render the request: expected a chat template that takes it, got: {error}"
        ) from error
    return str(text)


def encode(tokenizer: Any, rendered: str) -> Ids:
    """Token ids of a rendered request; a start token is added where the template wrote none."""
    start = tokenizer.bos_token
    return tuple(
        tokenizer(rendered, add_special_tokens=not (start and rendered.startswith(start))).input_ids
    )


def split_ids(ids: Ids, markers: Mapping[str, Ids]) -> list[tuple[str, Ids]]:
    """Cut at each marker: ("text", ids) and (kind, marker ids) in order; no piece is empty."""
    pieces: list[tuple[str, Ids]] = []
    begin = at = 0
    while at < len(ids):
        kind = next((k for k, m in markers.items() if ids[at : at + len(m)] == m), None)
        if kind is None:
            at += 1
            continue
        if begin < at:
            pieces.append(("text", ids[begin:at]))
        begin = at + len(markers[kind])
        pieces.append((kind, ids[at:begin]))
        at = begin
    if begin < len(ids):
        pieces.append(("text", ids[begin:]))
    return pieces


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


def media_of(
    messages: Sequence[Mapping[str, Any]], kinds: Sequence[str] = ("image",)
) -> list[tuple[str, Any]]:
    """The media of a chat request as (kind, source), in the order in which they are rendered.

    A source is an image or its path, a `Video`, or an `Audio`.

    Raises:
        ConfigError: no message, one of another form than role and content, a part of a kind that isn't
            served, or a media part without its source.
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
            if part.get("type") == "text":
                check_text(part.get("text"))
            else:
                found.append(_media(part, kinds))
    return found


def _media(part: Mapping[str, Any], kinds: Sequence[str]) -> tuple[str, Any]:
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        served = " or ".join(repr(name) for name in ("text", *kinds))
        raise ConfigError(f"Unsupported part {kind!r}: expected {served}")
    if part.get(kind) is None:
        article = "An" if kind[0] in "aeiou" else "A"
        raise ConfigError(
            f"{article} {kind} part without its {kind}: expected {{'type': {kind!r}, {kind!r}: ...}} "
            f"with the {kind} or its path, got the keys {sorted(map(str, part))}"
        )
    if kind == "video":
        return kind, _video(part)
    if kind == "audio":
        return kind, Audio(part["audio"], part.get("sampling_rate"))
    return kind, part[kind]


def _video(part: Mapping[str, Any]) -> Video:
    if part.get("use_audio_in_video") or part.get("load_audio_from_video"):
        raise ConfigError(
            "Audio inside a video isn't served: its tokens are woven into the frames' own, so that "
            "neither is a chunk. Pass the audio as a part of its own."
        )
    if part.get("fps") is None:
        raise ConfigError(
            "A video part without its fps: expected {'type': 'video', 'video': [frames], 'fps': rate}, "
            "the rate of these frames"
        )
    return Video.of(part["video"], part["fps"])
