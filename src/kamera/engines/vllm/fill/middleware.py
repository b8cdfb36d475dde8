"""ASGI middleware: `vllm serve --middleware kamera.engines.vllm.fill.middleware.FillMiddleware`.

It watches and never acts: the application reads the client's own messages and writes to the client
directly; a copy of the pieces of a chat request's body goes to the companion once the answer has begun
well. So a request that is refused (no API key, no JSON) fills nothing, and a request's first token comes
first.
"""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from kamera.engines.vllm.fill.companion import Companion

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CHAT_PATH = "/v1/chat/completions"
STATE = "kamera_fill"
"""The application's state under this name holds the companion; the endpoint plug-in puts it there."""

logger = logging.getLogger("vllm.kamera.fill")


class FillMiddleware:
    """Counts clients' requests in flight and hands the bodies of chat requests to the companion."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._has_warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the server's life span, at whose end the companion stops."""
        if scope["type"] == "lifespan":
            await self._app(scope, _stopping(scope, receive), send)
            return
        companion = self._companion(scope) if scope["type"] == "http" else None
        if companion is None or scope.get("method") != "POST":
            await self._app(scope, receive, send)
            return
        with companion.traffic.request():
            if scope.get("path", "").endswith(CHAT_PATH) and companion.is_running:
                watch = _Watch(companion, receive, send)
                await self._app(scope, watch.receive, watch.send)
            else:
                await self._app(scope, receive, send)

    def _companion(self, scope: Scope) -> Companion | None:
        companion = _companion_of(scope)
        if companion is None and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "FillMiddleware is loaded but its companion isn't: name kamera_fill in VLLM_PLUGINS "
                "(with kamera). Nothing is filled."
            )
        return companion


class _Watch:
    """One chat request. `receive` and `send` pass every message on as it is."""

    def __init__(self, companion: Companion, receive: Receive, send: Send) -> None:
        self._companion, self._receive, self._send = companion, receive, send
        self._pieces: list[bytes] | None = []
        self._num_bytes = 0
        self._is_ok = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._guard(self._keep, message)
        return message

    async def send(self, message: Message) -> None:
        await self._send(message)
        self._guard(self._hand_over, message)

    def _guard(self, watch: Callable[[Message], None], message: Message) -> None:
        """A bug in the watching must not reach the client."""
        try:
            watch(message)
        except Exception:
            self._pieces = None
            self._companion.counters.num_watch_errors += 1
            logger.debug("Watching a request failed", exc_info=True)

    def _keep(self, message: Message) -> None:
        if self._pieces is None or message["type"] != "http.request":
            return
        piece = message.get("body", b"")
        self._num_bytes += len(piece)
        if self._num_bytes > self._companion.settings.max_body_bytes:
            self._pieces = None
            self._companion.counters.num_skipped_large += 1
        elif piece:
            self._pieces.append(piece)

    def _hand_over(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._is_ok = message["status"] == 200
        elif self._is_ok and self._pieces and message.get("body"):
            pieces, self._pieces = self._pieces, None
            self._companion.offer(pieces)


def _companion_of(scope: Scope) -> Companion | None:
    state = getattr(scope.get("app"), "state", None)
    found = getattr(state, STATE, None)
    return found if isinstance(found, Companion) else None


def _stopping(scope: Scope, receive: Receive) -> Receive:
    async def receive_and_stop() -> Message:
        message = await receive()
        companion = _companion_of(scope)
        if message["type"] == "lifespan.shutdown" and companion is not None:
            await companion.stop()
        return message

    return receive_and_stop
