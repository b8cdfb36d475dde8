"""The companion with a sender that records: policies, once each, one at a time, budget, the spool."""

import asyncio
import logging
from pathlib import Path

import pytest
from fill_doubles import FAST, Recorder, chat, companion, settle, until

from kamera.engines.vllm.fill.companion import Companion
from kamera.engines.vllm.fill.settings import FillSettings
from kamera.engines.vllm.fill.source import ImageSource
from kamera.errors import ConfigError


def test_an_image_that_was_shown_is_sent_once() -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender)
        runs.start()
        for _ in range(3):
            runs.offer([chat("data:a", "data:b")])
        runs.offer([chat("data:c", cache_salt="t")])
        await settle(runs)
        await runs.stop()
        assert sender.sent == [
            ImageSource("data:a"),
            ImageSource("data:b"),
            ImageSource("data:c", cache_salt="t"),
        ]
        told = runs.to_json()
        assert (told["num_bodies"], told["num_images"], told["num_known"]) == (4, 7, 4)
        assert (told["num_sent"], told["num_sent_tokens"]) == (3, 21)
        assert told["num_waiting"] == 0

    asyncio.run(run())


def test_a_body_in_pieces_is_one_body() -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender)
        runs.start()
        body = chat("data:a")
        runs.offer([body[:7], body[7:40], body[40:]])
        await settle(runs)
        await runs.stop()
        assert sender.urls == ["data:a"]

    asyncio.run(run())


def test_solo_requests_go_one_at_a_time() -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender)
        runs.start()
        runs.offer([chat(*(f"data:{i}" for i in range(20)))])
        await settle(runs)
        await runs.stop()
        assert len(sender.sent) == 20
        assert sender.most_at_once == 1

    asyncio.run(run())


def test_idle_sends_only_while_no_clients_request_is_in_flight() -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender, policy="idle")
        runs.start()
        with runs.traffic.request():
            runs.offer([chat("data:a", "data:b")])
            await asyncio.sleep(20 * FAST)
            assert sender.sent == []
            sender.gate.clear()
        await until(lambda: sender.num_at_once == 1)
        with runs.traffic.request():
            sender.gate.set()
            await until(lambda: sender.urls == ["data:a"])
            await asyncio.sleep(20 * FAST)
            assert sender.urls == ["data:a"]
        await settle(runs)
        await runs.stop()
        assert sender.urls == ["data:a", "data:b"]

    asyncio.run(run())


def test_eager_sends_while_clients_wait() -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender, policy="eager")
        runs.start()
        with runs.traffic.request():
            runs.offer([chat("data:a")])
            await until(lambda: sender.urls == ["data:a"])
        await runs.stop()

    asyncio.run(run())


def test_off_sends_nothing_and_keeps_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender, policy="off", store=tmp_path)
        runs.start()
        assert not runs.is_running
        runs.offer([chat("data:a")])
        await asyncio.sleep(20 * FAST)
        assert sender.sent == []
        assert runs.to_json()["num_waiting"] == 0
        await runs.stop()

    asyncio.run(run())


def test_a_budget_that_is_spent_holds_the_rest_back() -> None:
    async def run() -> None:
        now = [1000.0]
        sender = Recorder()
        settings = FillSettings(policy="eager", poll_s=FAST, per_minute=2)
        runs = Companion(sender, settings, clock=lambda: now[0])
        waits: list[float] = []
        sleep = asyncio.sleep

        async def sleep_and_pass(seconds: float) -> None:
            waits.append(seconds)
            now[0] += seconds
            await sleep(0)

        runs.start()
        runs.offer([chat("data:a", "data:b", "data:c")])
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("kamera.engines.vllm.fill.companion.asyncio.sleep", sleep_and_pass)
            while len(sender.sent) < 3:
                await sleep(FAST)
        await runs.stop()
        assert 60.0 in waits
        assert now[0] >= 1060.0

    asyncio.run(run())


def test_a_source_that_fails_is_counted_and_the_next_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        sender = Recorder()
        sender.fails_on = {"data:bad"}
        runs = companion(sender)
        runs.start()
        runs.offer([chat("data:bad", "data:good")])
        await settle(runs)
        await runs.stop()
        assert sender.urls == ["data:good"]
        assert (runs.counters.num_failed, runs.counters.num_sent) == (1, 1)

    with caplog.at_level(logging.WARNING, logger="vllm.kamera.fill"):
        asyncio.run(run())
    assert "No canonical for a chunk (image): ValueError: can't read data:bad" in caplog.text


def test_an_image_that_failed_is_sent_at_a_later_sight() -> None:
    async def run() -> None:
        now = [1000.0]
        sender = Recorder()
        sender.fails_on = {"data:a"}
        settings = FillSettings(policy="eager", poll_s=FAST)
        runs = Companion(sender, settings, clock=lambda: now[0])
        runs.start()
        runs.offer([chat("data:a")])
        await until(lambda: runs.counters.num_failed == 1)
        sender.fails_on = set()
        runs.offer([chat("data:a")])
        await settle(runs)
        assert sender.urls == []
        now[0] += 60.0
        runs.offer([chat("data:a")])
        await settle(runs)
        await runs.stop()
        assert sender.urls == ["data:a"]

    asyncio.run(run())


def test_a_log_line_never_holds_an_images_bytes(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        sender = Recorder()
        url = "data:" + "x" * 100_000
        sender.fails_on = {url}
        runs = companion(sender)
        runs.start()
        runs.offer([chat(url)])
        await settle(runs)
        await runs.stop()

    with caplog.at_level(logging.WARNING, logger="vllm.kamera.fill"):
        asyncio.run(run())
    assert len(caplog.records) == 1
    assert len(caplog.records[0].getMessage()) < 400


def test_a_solo_request_that_hangs_is_given_up() -> None:
    async def run() -> None:
        sender = Recorder()
        sender.gate.clear()
        runs = companion(sender, solo_timeout_s=0.05)
        runs.start()
        runs.offer([chat("data:a")])
        await until(lambda: runs.counters.num_failed == 1)
        sender.gate.set()
        runs.offer([chat("data:b")])
        await settle(runs)
        await runs.stop()
        assert sender.urls == ["data:b"]

    asyncio.run(run())


def test_a_bug_in_the_companion_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender, retry_s=FAST)
        look = runs._look
        failures = iter([True])

        async def look_badly() -> None:
            if next(failures, False):
                raise RuntimeError("a bug")
            await look()

        runs._look = look_badly  # type: ignore[method-assign]
        runs.start()
        runs.offer([chat("data:a")])
        await until(lambda: sender.urls == ["data:a"])
        assert runs.is_running
        await runs.stop()

    asyncio.run(run())
    assert "a bug" in caplog.text


def test_it_ends_when_the_engine_is_gone() -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender)
        runs.start()
        sender.is_alive = False
        await until(lambda: not runs.is_running)
        runs.offer([chat("data:a")])
        assert runs.to_json()["num_waiting"] == 0
        await runs.stop()

    asyncio.run(run())


def test_an_engine_that_dies_ends_the_queue_too(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        sender = Recorder()
        urls = [f"data:{i}" for i in range(50)]
        sender.fails_on = set(urls)
        runs = companion(sender)
        runs.start()
        sender.gate.clear()
        runs.offer([chat(*urls)])
        await until(lambda: sender.num_at_once == 1)
        sender.is_alive = False
        sender.gate.set()
        await until(lambda: not runs.is_running)
        assert runs.counters.num_failed == 1

    asyncio.run(run())
    assert "The engine is gone" in caplog.text


def test_bodies_that_wait_stay_within_their_bytes_and_the_oldest_go() -> None:
    async def run() -> None:
        sender = Recorder()
        body = chat("data:a")
        runs = companion(sender, policy="idle", max_waiting_bytes=2 * len(body))
        runs.start()
        with runs.traffic.request():
            for name in "abc":
                runs.offer([chat(f"data:{name}")])
            assert runs.counters.num_dropped_bodies == 1
        await settle(runs)
        await runs.stop()
        assert sender.urls == ["data:b", "data:c"]

    asyncio.run(run())


def test_sources_that_find_the_queue_full_are_counted_and_get_another_chance() -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender, max_waiting=1)
        runs.start()
        runs.offer([chat("data:a", "data:b")])
        await settle(runs)
        assert runs.counters.num_dropped_sources == 1
        runs.offer([chat("data:a", "data:b")])
        await settle(runs)
        await runs.stop()
        assert sender.urls == ["data:a", "data:b"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "bad",
    [
        {"per_minute": 0},
        {"poll_s": 0.0},
        {"max_body_bytes": 0},
        {"max_tries": 0},
    ],
)
def test_settings_that_cannot_be_right_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        FillSettings(**bad)  # type: ignore[arg-type]
