"""What goes wrong around a load: its client goes away, it takes long, the cache is reset meanwhile."""

from collections.abc import Iterator

import pytest
from engine import Engine
from reference import Item, gap, some

BOUND = 1e-4
PLAIN = {"reuse": False}
SLOW = """
import time
from kamera.engines.vllm.worker import WorkerHalf
right = WorkerHalf._load
def slow(self, job):
    time.sleep(0.5)
    return right(self, job)
WorkerHalf._load = slow
engine.mend = lambda: setattr(WorkerHalf, "_load", right)
"""
ABORT = """
from vllm.distributed.kv_transfer import get_kv_transfer_group
core = llm.llm_engine
prompt, params = engine._prompt({images!r}, {question!r}, None), engine._params(None, 1, None)
core.add_request("leaves", prompt, params, tokenization_kwargs={{"add_special_tokens": False}})
core.step()
result = len(get_kv_transfer_group()._worker._running)
core.abort_request(list(core.output_processor.request_states), internal=True)
"""
RESET = "result = llm.llm_engine.reset_prefix_cache(reset_connector=True)"


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return some("nano-gqa", 4)


@pytest.fixture(scope="module")
def filled(items: list[Item], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Few blocks, so that those of a request that left are soon another's."""
    folder = tmp_path_factory.mktemp("hazards")
    settings = {"store": str(folder / "store"), "rank": 1 << 20}
    options = {"block_size": 32, "num_gpu_blocks_override": 24, "max_model_len": 512}
    with Engine("nano-gqa", folder / "log", settings, **options) as engine:
        refill(engine, items)
        yield engine


def refill(engine: Engine, items: list[Item]) -> None:
    engine.fill(items)
    engine.ask(*items)
    engine.settle()


def test_a_client_that_leaves_during_a_load_harms_nobody(filled: Engine, items: list[Item]) -> None:
    """Its load goes on for a while; its blocks mustn't be another's by then."""
    gone, others = items[-1], items[:-1]
    filled.call("run", SLOW)
    try:
        code = ABORT.format(images=[str(p) for p in gone.images], question=gone.question)
        assert filled.call("run", code) == 1  # its load is under way
        answers = filled.ask(*others, kamera=PLAIN, max_tokens=8)
    finally:
        filled.call("run", "engine.mend()")
    for item, answer in zip(others, answers, strict=True):
        assert gap(answer.logprobs, item.logprobs["re-prefill"]) <= BOUND
    served = filled.one(gone)
    assert served.num_cached == gone.num_held
    assert gap(served.logprobs, gone.logprobs["re-prefill"]) <= BOUND


def test_a_slow_load_delays_its_own_request_alone(filled: Engine, items: list[Item]) -> None:
    filled.call("run", SLOW)
    try:
        answers = filled.ask(*items[:4], kamera=[None, PLAIN, None, PLAIN], max_tokens=8)
    finally:
        filled.call("run", "engine.mend()")
    for item, answer in zip(items[:4], answers, strict=True):
        assert gap(answer.logprobs, item.logprobs["re-prefill"]) <= BOUND


def test_nothing_is_read_from_before_a_reset(filled: Engine, items: list[Item]) -> None:
    """Weights may have changed in place: what was stored is another model's."""
    item = items[0]
    assert filled.one(item).num_cached == item.num_held
    assert filled.call("run", RESET)
    first = filled.one(item)
    assert first.num_cached == 0
    assert gap(first.logprobs, item.logprobs["re-prefill"]) <= BOUND
    refill(filled, items)
    again = filled.one(item)
    assert again.num_cached == item.num_held
    assert gap(again.logprobs, item.logprobs["re-prefill"]) <= BOUND
