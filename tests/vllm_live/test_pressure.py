"""Many requests, little room: batches, chunked prefill, preemption and resume, plain and composed mixed."""

from collections.abc import Iterator
from typing import Any

import pytest
from answer import Answer
from engine import Engine
from figures import Figures
from reference import Item, gap, some

BOUND = 1e-4
MARGIN = 1e-3
"""Ten times the bound: below it two tokens may change places by rounding alone."""
FULL_RANK = 1 << 20
NUM_TOKENS = 40
PLAIN = {"reuse": False}
ASKED: tuple[Any, ...] = (None, PLAIN, {"patch": "none"})
OPTIONS: dict[str, dict[str, Any]] = {
    "nano-gqa": {"block_size": 32, "num_gpu_blocks_override": 32, "max_num_batched_tokens": 96},
    "nano-mla": {"num_gpu_blocks_override": 64},
}


@pytest.fixture(scope="module", params=list(OPTIONS))
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def items(model: str) -> list[Item]:
    return some(model, 3)


@pytest.fixture(scope="module")
def crowded(
    model: str, items: list[Item], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """Room for about three requests of the longest; GQA's prefill in pieces of 96 tokens."""
    folder = tmp_path_factory.mktemp("pressure")
    settings = {"store": str(folder / "store"), "rank": FULL_RANK}
    options = {"max_model_len": 512, "max_num_seqs": 12} | OPTIONS[model]
    with Engine(model, folder / "log", settings, **options) as engine:
        engine.fill(items)
        engine.ask(*items, max_tokens=2)
        engine.settle()
        yield engine


def test_prefill_in_pieces_is_kept_whole(crowded: Engine, items: list[Item]) -> None:
    """What was captured over several steps serves as what was captured in one."""
    for item in items:
        served = crowded.one(item)
        assert served.num_cached == item.num_held
        assert gap(served.logprobs, item.logprobs["re-prefill"]) <= BOUND


def test_no_wrong_answer_under_preemption(
    model: str, crowded: Engine, items: list[Item], figures: Figures
) -> None:
    requests = [(item, asked) for item in items for asked in ASKED]
    alone = [crowded.one(item, kamera=asked, max_tokens=NUM_TOKENS) for item, asked in requests]
    before = crowded.call("stats")
    together = crowded.ask(
        *(item for item, _ in requests),
        kamera=[asked for _, asked in requests],
        max_tokens=NUM_TOKENS,
    )
    after = crowded.call("stats")
    preempted = after["vllm:num_preemptions_total"] - before["vllm:num_preemptions_total"]
    loads = after["kamera:loads_total"] - before["kamera:loads_total"]
    assert preempted > 0
    assert loads > sum(asked != PLAIN for _, asked in requests)  # composed again on resuming
    wrong = sum(not same(*pair) for pair in zip(together, alone, strict=True))
    compared = sum(len(answer.settled(MARGIN)) for answer in alone)
    figures.add(
        "pressure",
        model,
        {
            "requests": len(requests),
            "preemptions": preempted,
            "loads": loads,
            "wrong_answers": wrong,
            "tokens_compared": compared,
        },
    )
    assert wrong == 0
    assert compared > len(requests) * NUM_TOKENS / 2


def same(found: Answer, alone: Answer) -> bool:
    """The first token's log-probabilities, and every token that rounding can't turn."""
    settled = alone.settled(MARGIN)
    common = found.logprobs.keys() & alone.logprobs.keys()
    close = max(abs(found.logprobs[t] - alone.logprobs[t]) for t in common) <= BOUND
    return close and found.token_ids[: len(settled)] == settled
