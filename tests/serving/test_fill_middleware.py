"""The middleware around an application without a framework: it passes everything on and hands over copies."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest
from fill_doubles import Recorder, ask, chat, companion, settle

from kamera.engines.vllm.fill.endpoint import FillEndpoint
from kamera.engines.vllm.fill.middleware import FillMiddleware, Message, Receive, Scope, Send
from kamera.engines.vllm.settings import ConnectorSettings


def answering(status: int = 200, pieces: tuple[bytes, ...] = (b"one", b"two")) -> "App":
    return App(status, pieces)


class App:
    """Reads the whole body, keeps the messages it read, and answers in pieces."""

    def __init__(self, status: int, pieces: tuple[bytes, ...]) -> None:
        self.status, self.pieces = status, pieces
        self.read: list[Message] = []
        self.sent: list[Message] = []
        self.during: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            self.read.append(message)
            if not message.get("more_body"):
                break
        self.sent = [{"type": "http.response.start", "status": self.status, "headers": []}]
        self.sent += [
            {"type": "http.response.body", "body": piece, "more_body": i < len(self.pieces) - 1}
            for i, piece in enumerate(self.pieces)
        ]
        for message in self.sent:
            await send(message)
            if self.during is not None:
                await self.during()


def test_the_application_and_the_client_get_the_very_messages() -> None:
    async def run() -> None:
        runs = companion(Recorder())
        runs.start()
        app = answering()
        body = chat("data:a")
        got = await ask(FillMiddleware(app), [body[:10], body[10:], b""], state=runs)
        assert [message["body"] for message in app.read] == [body[:10], body[10:], b""]
        assert [message["more_body"] for message in app.read] == [True, True, False]
        assert all(a is b for a, b in zip(got, app.sent, strict=True))
        await runs.stop()

    asyncio.run(run())


def test_a_chat_requests_images_reach_the_companion() -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender)
        runs.start()
        body = chat("data:a", cache_salt="t")
        await ask(FillMiddleware(answering()), [body[:9], body[9:]], state=runs)
        await settle(runs)
        await runs.stop()
        assert [(s.url, s.cache_salt) for s in sender.sent] == [("data:a", "t")]  # type: ignore[union-attr]

    asyncio.run(run())


def test_images_are_handed_over_after_the_first_piece_of_the_answer() -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender)
        runs.start()
        waiting: list[int] = []

        def look() -> None:
            waiting.append(int(runs.to_json()["num_waiting"]))

        await ask(FillMiddleware(answering()), [chat("data:a")], state=runs, on_sent=look)
        await runs.stop()
        # as the head, the first and the second piece reach the client
        assert waiting == [0, 0, 1]

    asyncio.run(run())


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_a_request_that_is_refused_fills_nothing(status: int) -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender)
        runs.start()
        await ask(FillMiddleware(answering(status)), [chat("data:a")], state=runs)
        await settle(runs)
        await runs.stop()
        assert (sender.sent, runs.counters.num_bodies) == ([], 0)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "method"), [("/v1/completions", "POST"), ("/v1/chat/completions", "GET")]
)
def test_other_requests_are_not_watched(path: str, method: str) -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender)
        runs.start()
        await ask(
            FillMiddleware(answering()), [chat("data:a")], state=runs, path=path, method=method
        )
        await settle(runs)
        await runs.stop()
        assert (sender.sent, runs.counters.num_bodies) == ([], 0)

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses"])
def test_every_clients_post_is_in_flight_until_its_answer_ended(path: str) -> None:
    async def run() -> None:
        runs = companion(Recorder())
        runs.start()
        app = answering()
        seen: list[int] = []

        async def look() -> None:
            seen.append(runs.traffic.num_in_flight)

        app.during = look
        await ask(FillMiddleware(app), [b"{}"], state=runs, path=path)
        assert seen == [1, 1, 1]
        assert runs.traffic.num_in_flight == 0
        await runs.stop()

    asyncio.run(run())


def test_an_application_that_fails_fails_as_it_would() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        raise KeyError("its own")

    async def run() -> None:
        runs = companion(Recorder())
        runs.start()
        with pytest.raises(KeyError, match="its own"):
            await ask(FillMiddleware(broken), [chat("data:a")], state=runs)
        assert runs.traffic.num_in_flight == 0
        await runs.stop()

    asyncio.run(run())


def test_a_body_over_the_cap_is_counted_and_not_kept() -> None:
    async def run() -> None:
        sender = Recorder()
        body = chat("data:" + "x" * 1000)
        runs = companion(sender, max_body_bytes=500)
        runs.start()
        app = answering()
        await ask(FillMiddleware(app), [body[:400], body[400:]], state=runs)
        await settle(runs)
        await runs.stop()
        assert b"".join(m["body"] for m in app.read) == body
        assert (sender.sent, runs.counters.num_skipped_large) == ([], 1)

    asyncio.run(run())


def test_a_bug_in_the_watching_never_reaches_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        runs = companion(Recorder())
        runs.start()

        def fail(_: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(runs, "offer", fail)
        app = answering()
        got = await ask(FillMiddleware(app), [chat("data:a")], state=runs)
        assert len(got) == 3
        assert runs.counters.num_watch_errors == 1
        await runs.stop()

    asyncio.run(run())


def test_without_a_companion_everything_passes_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        middleware = FillMiddleware(answering())
        for _ in range(2):
            assert len(await ask(middleware, [chat("data:a")], state=None)) == 3

    asyncio.run(run())
    assert caplog.text.count("name kamera_fill in VLLM_PLUGINS") == 1


def test_the_companion_stops_when_the_server_does() -> None:
    async def run() -> None:
        runs = companion(Recorder())
        runs.start()
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive() -> Message:
            return next(messages)

        async def send(message: Message) -> None:
            pass

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            assert runs.is_running
            await receive()

        scope = {
            "type": "lifespan",
            "app": SimpleNamespace(state=SimpleNamespace(kamera_fill=runs)),
        }
        await FillMiddleware(app)(scope, receive, send)
        assert not runs.is_running

    asyncio.run(run())


class Routes:
    """What the endpoint asks of FastAPI's application."""

    def __init__(self) -> None:
        self.added: dict[str, Callable[[], Awaitable[dict[str, object]]]] = {}

    def add_api_route(
        self, path: str, answer: Callable[[], Awaitable[dict[str, object]]], **_: object
    ) -> None:
        self.added[path] = answer


def engine(**extra: object) -> SimpleNamespace:
    transfer = SimpleNamespace(kv_connector="KameraConnector", kv_connector_extra_config=extra)
    config = SimpleNamespace(
        kv_transfer_config=transfer, scheduler_config=SimpleNamespace(policy="fcfs")
    )
    return SimpleNamespace(vllm_config=config, renderer=SimpleNamespace(), errored=False)


def test_the_endpoint_starts_the_companion_as_the_connector_is_set() -> None:
    async def run() -> None:
        plugin, routes, state = FillEndpoint(), Routes(), SimpleNamespace()
        plugin.attach_router(routes)
        answer = routes.added["/kamera/fill"]
        assert await answer() == {"policy": "off", "is_running": False}
        await plugin.init_state(engine(fill="eager", fill_per_minute=5), state, None)  # type: ignore[arg-type]
        assert state.kamera_fill.settings.per_minute == 5
        told = await answer()
        assert (told["policy"], told["is_running"], told["num_sent"]) == ("eager", True, 0)
        await state.kamera_fill.stop()

    asyncio.run(run())


def test_the_endpoint_starts_nothing_without_the_connector() -> None:
    async def run() -> None:
        other = engine()
        other.vllm_config.kv_transfer_config = None
        for client in (None, other):
            plugin, state = FillEndpoint(), SimpleNamespace()
            await plugin.init_state(client, state, None)  # type: ignore[arg-type]
            assert not hasattr(state, "kamera_fill")

    asyncio.run(run())


def test_the_companion_and_the_connector_have_one_default() -> None:
    async def run() -> None:
        plugin, state = FillEndpoint(), SimpleNamespace()
        await plugin.init_state(engine(), state, None)  # type: ignore[arg-type]
        assert state.kamera_fill.settings.policy == ConnectorSettings().fill
        await state.kamera_fill.stop()

    asyncio.run(run())
