"""Budget, traffic, intake and kept images: each alone."""

import asyncio

from kamera.engines.vllm.fill.budget import Budget
from kamera.engines.vllm.fill.intake import Intake
from kamera.engines.vllm.fill.kept import KeptImages
from kamera.engines.vllm.fill.source import ImageSource, TextSource
from kamera.engines.vllm.fill.traffic import Traffic


def test_a_budget_never_lets_more_start_in_any_period() -> None:
    budget, now = Budget(3, period_s=60.0), 0.0
    starts = []
    for step in range(20):
        now += budget.delay_s(now) + (step % 3) * 5.0
        assert budget.delay_s(now) == 0.0
        budget.spend(now)
        starts.append(now)
    assert all(later - earlier >= 60.0 for earlier, later in zip(starts, starts[3:], strict=False))


def test_a_budget_that_is_spent_says_how_long_to_wait() -> None:
    budget = Budget(2, period_s=60.0)
    budget.spend(0.0)
    budget.spend(10.0)
    assert budget.delay_s(15.0) == 45.0
    assert budget.delay_s(60.0) == 0.0


def test_traffic_is_quiet_only_when_the_last_request_ended() -> None:
    async def run() -> None:
        traffic = Traffic()
        await asyncio.wait_for(traffic.quiet(), 1)
        with traffic.request():
            with traffic.request():
                assert traffic.num_in_flight == 2
            waiting = asyncio.ensure_future(traffic.quiet())
            await asyncio.sleep(0.01)
            assert not waiting.done()
        await asyncio.wait_for(waiting, 1)
        assert traffic.num_in_flight == 0

    asyncio.run(run())


def test_a_request_that_fails_ends_in_the_traffic_too() -> None:
    async def run() -> None:
        traffic = Traffic()
        try:
            with traffic.request():
                raise ConnectionError
        except ConnectionError:
            pass
        await asyncio.wait_for(traffic.quiet(), 1)

    asyncio.run(run())


def test_the_same_source_is_taken_once() -> None:
    intake = Intake(10, 1000)
    assert intake.add(ImageSource("data:a"), 0.0)
    assert not intake.add(ImageSource("data:a"), 0.0)
    assert intake.pop() == ImageSource("data:a")
    assert not intake.add(ImageSource("data:a"), 1e9)
    assert intake.pop() is None
    assert intake.add(ImageSource("data:a", cache_salt="other"), 0.0)


def test_a_source_that_failed_counts_as_new_after_a_while() -> None:
    intake = Intake(10, 1000)
    image = ImageSource("data:a")
    assert intake.add(image, 0.0)
    intake.pop()
    intake.failed(image, until=60.0)
    assert not intake.add(image, 59.0)
    assert intake.add(image, 60.0)


def test_a_wanted_source_is_taken_again_but_never_twice_at_once() -> None:
    intake = Intake(10, 1000)
    text = TextSource((1, 2))
    assert intake.add(text, 0.0, again=True)
    assert not intake.add(text, 0.0, again=True)
    assert intake.pop() == text
    assert intake.add(text, 0.0, again=True)


def test_a_full_queue_drops_and_another_sight_gets_a_chance() -> None:
    intake = Intake(1, 1000)
    assert intake.add(ImageSource("data:a"), 0.0)
    assert not intake.add(ImageSource("data:b"), 0.0)
    intake.pop()
    assert intake.add(ImageSource("data:b"), 0.0)


def test_a_queue_is_full_by_its_bytes_too() -> None:
    intake = Intake(10, max_bytes=10)
    assert intake.add(ImageSource("data:aaaaa"), 0.0)
    assert not intake.add(ImageSource("data:b"), 0.0)
    intake.pop()
    assert intake.add(ImageSource("data:b"), 0.0)


def test_what_a_web_address_shows_counts_as_new_after_a_while() -> None:
    intake = Intake(10, 1000, renew_s=600.0)
    assert intake.add(ImageSource("https://host/now.png"), 0.0)
    intake.pop()
    assert not intake.add(ImageSource("https://host/now.png"), 599.0)
    assert intake.add(ImageSource("https://host/now.png"), 600.0)


def test_kept_images_stay_within_their_bytes_and_the_unused_go_first() -> None:
    kept = KeptImages(max_bytes=20)
    for name in "ab":
        kept.put(name, ImageSource("data:" + name * 5), 1.0)
    assert kept.get("a", None) is not None
    kept.put("c", ImageSource("data:ccccc"), 2.0)
    assert kept.get("b", None) is None
    assert kept.get("a", None) is not None
    assert kept.num_bytes == 20
    kept.put("c", ImageSource("data:ccccc"), 3.0)
    assert kept.num_bytes == 20
    found = kept.get("c", None)
    assert found is not None
    assert found.sent_at == 3.0


def test_kept_images_are_told_apart_by_their_salt() -> None:
    kept = KeptImages(max_bytes=1000)
    kept.put("a", ImageSource("data:a", cache_salt="t1"), 0.0)
    assert kept.get("a", None) is None
    assert kept.get("a", "t2") is None
    assert kept.get("a", "t1") is not None


def test_an_image_larger_than_all_that_may_be_kept_is_not_kept() -> None:
    kept = KeptImages(max_bytes=10)
    kept.put("a", ImageSource("data:" + "a" * 100), 0.0)
    assert kept.get("a", None) is None
    assert kept.num_bytes == 0
