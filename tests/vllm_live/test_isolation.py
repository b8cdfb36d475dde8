"""What is composed never reaches a request that didn't ask for it: with vLLM's own prefix cache on."""

from collections.abc import Iterator

import pytest
from engine import Engine
from figures import Figures
from reference import Item, gap, some

BOUND = 1e-4
BLIND, PLAIN = {"patch": "none"}, {"reuse": False}
NOT_ISOLATED = """
from kamera.engines.vllm import scheduler
right = scheduler._isolate
scheduler._isolate = lambda request, name: None
engine.mend = lambda: setattr(scheduler, "_isolate", right)
"""


@pytest.fixture(scope="module")
def items() -> list[Item]:
    """Longer than a block of the CPU's pool (128 tokens), so that the prefix cache has something to give."""
    return [item for item in some("nano-gqa", 32) if item.num_held > 160]


@pytest.fixture(scope="module")
def cached(items: list[Item], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("isolation")
    settings = {"store": str(folder / "store"), "rank": 1}
    with Engine("nano-gqa", folder / "log", settings, enable_prefix_caching=True) as engine:
        for salt in (None, "one"):
            engine.fill(items, salt)
        engine.settle()
        yield engine


def forget(engine: Engine) -> None:
    """Empty vLLM's own prefix cache, and nothing else."""
    engine.call(
        "run",
        "llm.llm_engine.engine_core.engine_core.scheduler.kv_cache_manager.reset_prefix_cache()",
    )


def test_a_later_plain_request_is_right(
    cached: Engine, items: list[Item], figures: Figures
) -> None:
    for item in items[:8]:
        forget(cached)
        blind = cached.one(item, kamera=BLIND, salt="one")
        assert gap(blind.logprobs, item.logprobs["blind"]) <= BOUND
        assert gap(blind.logprobs, item.logprobs["re-prefill"]) > BOUND
        for _ in range(2):
            plain = cached.one(item, kamera=PLAIN, salt="one")
            found = gap(plain.logprobs, item.logprobs["re-prefill"])
            figures.highest("isolation", "nano-gqa", later_plain_gap=found)
            assert found <= BOUND
        assert plain.num_cached >= 128  # the second one is from the prefix cache: its own


def test_without_isolation_a_later_plain_request_is_wrong(
    cached: Engine, items: list[Item], figures: Figures
) -> None:
    """The control: were composed KV kept under the request's own salt, the test above would fail."""
    item = items[0]
    forget(cached)
    cached.call("run", NOT_ISOLATED)
    try:
        cached.one(item, kamera=BLIND, salt="one")
        plain = cached.one(item, kamera=PLAIN, salt="one")
    finally:
        cached.call("run", "engine.mend()")
        forget(cached)
    found = gap(plain.logprobs, item.logprobs["re-prefill"])
    figures.highest("isolation", "nano-gqa", later_plain_gap_were_it_not_isolated=found)
    assert found > BOUND


def test_two_plans_of_one_prompt_dont_meet(cached: Engine, items: list[Item]) -> None:
    """Blind and rank 1, both composed, each as if the other had never been."""
    item = items[1]
    forget(cached)
    cached.one(item)
    cached.settle()
    alone = {}
    for name, asked in (("blind", BLIND), ("rank 1", None)):
        forget(cached)
        alone[name] = cached.one(item, kamera=asked).logprobs
    assert largest(alone["blind"], alone["rank 1"]) > 10 * BOUND
    forget(cached)
    for _ in range(2):
        for name, asked in (("blind", BLIND), ("rank 1", None)):
            answer = cached.one(item, kamera=asked)
            assert answer.num_cached == item.num_held
            assert largest(answer.logprobs, alone[name]) <= BOUND


def largest(some: dict[int, float], others: dict[int, float]) -> float:
    """The largest |Δlogprob| over the tokens that both tell."""
    return max(abs(some[token] - others[token]) for token in some.keys() & others.keys())


def test_a_prefix_that_vllm_holds_is_left_as_it_is(cached: Engine, items: list[Item]) -> None:
    """Plain first: its blocks are shared. A composed request may use them, and must not write to them."""
    for item in items[2:6]:
        forget(cached)
        first = cached.one(item, kamera=PLAIN)
        cached.one(item)
        cached.one(item, kamera=BLIND)
        again = cached.one(item, kamera=PLAIN)
        assert again.num_cached >= 128
        assert gap(again.logprobs, item.logprobs["re-prefill"]) <= BOUND
        assert first.token_ids == again.token_ids


def test_another_salt_finds_nothing(cached: Engine, items: list[Item]) -> None:
    item = items[6]
    forget(cached)
    assert cached.one(item, kamera=BLIND, salt="one").num_cached == item.num_held
    other = cached.one(item, kamera=BLIND, salt="two")
    assert other.num_cached == 0
    assert gap(other.logprobs, item.logprobs["re-prefill"]) <= BOUND
