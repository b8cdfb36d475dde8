"""A sender that records, bodies as clients send them, and an application without a framework."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from kamera.engines.vllm.fill.companion import Companion, Sent
from kamera.engines.vllm.fill.middleware import Message
from kamera.engines.vllm.fill.settings import FillSettings
from kamera.engines.vllm.fill.source import ImageSource, Source

FAST = 0.005
"""How often the companion looks, in seconds, so that a test takes no longer."""


class Recorder:
    """Records what it is asked to send. `gate` holds every request until it is set."""

    def __init__(self) -> None:
        self.sent: list[Source] = []
        self.is_alive = True
        self.gate = asyncio.Event()
        self.gate.set()
        self.num_at_once = self.most_at_once = 0
        self.fails_on: set[str] = set()

    async def send(self, source: Source) -> Sent:
        self.num_at_once += 1
        self.most_at_once = max(self.most_at_once, self.num_at_once)
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            name = source.url if isinstance(source, ImageSource) else str(source.token_ids)
            if name in self.fails_on:
                raise ValueError(f"can't read {name}")
            self.sent.append(source)
            return Sent(7, f"hash of {name}" if isinstance(source, ImageSource) else None)
        finally:
            self.num_at_once -= 1

    @property
    def urls(self) -> list[str]:
        return [source.url for source in self.sent if isinstance(source, ImageSource)]


def companion(sender: Recorder, **settings: Any) -> Companion:
    return Companion(sender, FillSettings(**{"policy": "eager", "poll_s": FAST, **settings}))


def chat(*urls: str, **fields: Any) -> bytes:
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = [{"type": "text", "text": "What is it?"}, *parts]
    return json.dumps({"messages": [{"role": "user", "content": content}], **fields}).encode()


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Wait for a condition that must come true."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(FAST)


async def settle(runs: Companion) -> None:
    """Wait until nothing waits, and then two looks more."""
    await until(lambda: runs.is_settled)
    await asyncio.sleep(4 * FAST)
    await until(lambda: runs.is_settled)


async def ask(
    app: Callable[..., Awaitable[None]],
    body: list[bytes],
    *,
    state: object = None,
    path: str = "/v1/chat/completions",
    method: str = "POST",
    on_sent: Callable[[], None] = lambda: None,
) -> list[Message]:
    """One HTTP request in pieces; the messages that the client gets, as the very objects.

    `on_sent` is called as each of them reaches the client.
    """
    answer: list[Message] = []
    pieces = [
        {"type": "http.request", "body": piece, "more_body": i < len(body) - 1}
        for i, piece in enumerate(body)
    ]
    messages = iter([*pieces, {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        answer.append(message)
        on_sent()

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "app": SimpleNamespace(state=SimpleNamespace(kamera_fill=state)),
    }
    await app(scope, receive, send)
    return answer
