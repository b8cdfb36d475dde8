"""The images of a chat request's body. A client's body is foreign: nothing in it is relied on."""

import json
from collections.abc import Iterator
from typing import Any

from kamera.engines.vllm.fill.source import ImageSource

_HINT = b"image"
"""Every part that holds an image has it in its keys: a body without it isn't parsed."""


def images_of(body: bytes) -> list[ImageSource]:
    """The images in the order of the messages; none where the body isn't a chat request, or opts out."""
    if _HINT not in body:
        return []
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return []
    if not isinstance(request, dict) or _opts_out(request):
        return []
    salt = request.get("cache_salt")
    media_io, processor = request.get("media_io_kwargs"), request.get("mm_processor_kwargs")
    return [
        ImageSource(
            url,
            cache_salt=salt if isinstance(salt, str) and salt else None,
            media_io_kwargs=media_io if isinstance(media_io, dict) else None,
            mm_processor_kwargs=processor if isinstance(processor, dict) else None,
        )
        for url in _urls(request.get("messages"))
    ]


def _opts_out(request: dict[str, Any]) -> bool:
    """Whether the client asked that nothing be reused, or sends solo requests of its own."""
    transfer = request.get("kv_transfer_params")
    asked = transfer.get("kamera") if isinstance(transfer, dict) else None
    return asked == "solo" or (isinstance(asked, dict) and asked.get("reuse", True) is not True)


def _urls(messages: Any) -> Iterator[str]:
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            url = _url(part)
            if url:
                yield url


def _url(part: Any) -> str | None:
    """The url of `{"type": "image_url", "image_url": {"url": ...}}`, or of a bare `image_url` string."""
    image = part.get("image_url") if isinstance(part, dict) else None
    url = image.get("url") if isinstance(image, dict) else image
    return url if isinstance(url, str) else None
