"""The companion and the spool: what is wanted is sent, again if need be, and given up in the end."""

import asyncio
import json
from pathlib import Path

import pytest
from fill_doubles import FAST, Recorder, chat, companion, settle, until

from kamera.engines.vllm.fill.companion import Companion
from kamera.engines.vllm.fill.settings import FillSettings
from kamera.engines.vllm.fill.source import TextSource


def want(store: Path, name: str, **value: object) -> Path:
    (store / "wanted").mkdir(exist_ok=True)
    path = store / "wanted" / f"{name}.json"
    path.write_text(json.dumps({"version": 1, "cache_salt": None, **value}))
    return path


def test_a_wanted_text_is_sent_with_its_salt(tmp_path: Path) -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender, store=tmp_path)
        runs.start()
        want(tmp_path, "a", kind="text", token_ids=[5, 6, 7], cache_salt="t")
        await until(lambda: bool(sender.sent))
        await asyncio.sleep(10 * FAST)
        await runs.stop()
        assert sender.sent == [TextSource((5, 6, 7), "t")]
        assert runs.to_json()["num_wanted"] == 1

    asyncio.run(run())


def test_a_text_that_is_still_wanted_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    async def run() -> None:
        sender = Recorder()
        runs = companion(sender, store=tmp_path, retry_s=4 * FAST, max_tries=2)
        runs.start()
        path = want(tmp_path, "a", kind="text", token_ids=[5])
        await until(lambda: runs.to_json()["num_wanted_given_up"] == 1)
        await asyncio.sleep(20 * FAST)
        assert sender.sent == 2 * [TextSource((5,))]
        assert runs.counters.num_retried == 1
        path.unlink()
        await until(lambda: runs.to_json()["num_wanted"] == 0)
        await runs.stop()

    asyncio.run(run())


def test_of_several_front_ends_one_sends_the_texts(tmp_path: Path) -> None:
    async def run() -> None:
        sender = Recorder()
        settings = FillSettings(policy="eager", poll_s=FAST, store=tmp_path)
        runs = Companion(sender, settings, reads_spool=False)
        runs.start()
        want(tmp_path, "a", kind="text", token_ids=[5])
        await until(lambda: runs.to_json()["num_wanted"] == 1)
        await asyncio.sleep(10 * FAST)
        await runs.stop()
        assert sender.sent == []

    asyncio.run(run())


def test_an_image_whose_canonical_was_evicted_is_sent_again(tmp_path: Path) -> None:
    async def run() -> None:
        now = [1000.0]
        sender = Recorder()
        settings = FillSettings(policy="eager", poll_s=FAST, store=tmp_path)
        runs = Companion(sender, settings, clock=lambda: now[0])
        runs.start()
        runs.offer([chat("data:a")])
        await settle(runs)
        want(tmp_path, "chunk", kind="image", mm_hash="hash of data:a")
        await until(lambda: runs.to_json()["num_wanted"] == 1)
        await asyncio.sleep(10 * FAST)
        assert sender.urls == ["data:a"]  # just sent: its canonical is on its way
        now[0] += 60.0
        await until(lambda: len(sender.sent) == 2)
        await runs.stop()
        assert sender.urls == ["data:a", "data:a"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "fields", [{"mm_hash": "unknown"}, {"mm_hash": "hash of data:a", "cache_salt": "other tenant"}]
)
def test_an_image_that_was_not_seen_here_is_left_wanted(
    tmp_path: Path, fields: dict[str, str]
) -> None:
    async def run() -> None:
        now = [1000.0]
        sender = Recorder()
        settings = FillSettings(policy="eager", poll_s=FAST, store=tmp_path)
        runs = Companion(sender, settings, clock=lambda: now[0])
        runs.start()
        runs.offer([chat("data:a")])
        await settle(runs)
        now[0] += 1000.0
        want(tmp_path, "chunk", kind="image", **fields)
        await until(lambda: runs.to_json()["num_wanted"] == 1)
        await asyncio.sleep(10 * FAST)
        await runs.stop()
        assert sender.urls == ["data:a"]

    asyncio.run(run())
