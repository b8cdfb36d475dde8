"""What the connector composes, in float32: full rank is plain prefill, no patch is the masked oracle.

The oracle is Transformers with each chunk blind to the others (a 4-D mask): `write_reference.py` has it as
the arm `blind`, and tests/conformance holds that it is. The controls break one thing each and must leave the
bound.
"""

from collections.abc import Iterator

import pytest
from engine import Engine
from figures import Figures
from reference import Item, gap, some

import kamera

BOUND = 1e-4
FULL_RANK = 1 << 20
MODELS = kamera.packaged_models()
EACH = 6

WRONG_SHIFT = """
from dataclasses import replace
from kamera.engines.vllm.worker import WorkerHalf
right = WorkerHalf._placed
def placed(self, owner, piece):
    return right(self, owner, replace(piece, start=piece.start + 1 if piece.start else 0))
WorkerHalf._placed = placed
engine.mend = lambda: setattr(WorkerHalf, "_placed", right)
"""
WRONG_IMAGE = """
from kamera.library import Library
right = Library.canonical
seen = {}
def canonical(self, chunk):
    others = [c for c in seen.setdefault(chunk.num_tokens, []) if c.digest != chunk.digest]
    seen[chunk.num_tokens].append(chunk)
    return right(self, others[-1] if others and chunk.key.kind == "image" else chunk)
Library.canonical = canonical
engine.mend = lambda: setattr(Library, "canonical", right)
"""
MEND = "engine.mend()"
BLIND = {"patch": "none"}
SOURCES = "vllm:prompt_tokens_by_source_total"


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def items(model: str) -> list[Item]:
    return some(model, EACH)


@pytest.fixture(scope="module")
def filled(
    model: str, items: list[Item], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """An engine that has every item's chunks and patches of full rank."""
    folder = tmp_path_factory.mktemp("exact")
    settings = {"store": str(folder / "store"), "rank": FULL_RANK}
    with Engine(model, folder / "log", kamera=settings) as engine:
        engine.fill(items)
        engine.ask(*items)
        engine.settle()
        yield engine


@pytest.fixture
def broken(request: pytest.FixtureRequest, filled: Engine) -> Iterator[Engine]:
    """The same engine with one thing wrong, mended afterwards."""
    filled.call("run", request.param)
    try:
        yield filled
    finally:
        filled.call("run", MEND)


def test_without_reuse_it_is_transformers(model: str, filled: Engine, figures: Figures) -> None:
    """The prompt's ids, the answer and its log-probabilities: what all else here stands on."""
    for item in some(model, 8):
        plain = filled.one(item, kamera={"reuse": False})
        assert plain.num_cached == 0
        assert plain.prompt_token_ids == item.prompt_token_ids
        assert plain.token_ids == (item.token("re-prefill"),)
        found = gap(plain.logprobs, item.logprobs["re-prefill"])
        figures.highest("exact", model, plain_against_transformers=found)
        assert found <= BOUND
        assert gap(plain.logprobs, item.logprobs["blind"]) > 10 * BOUND


def test_full_rank_is_plain_prefill(
    model: str, filled: Engine, items: list[Item], figures: Figures
) -> None:
    for item in items:
        plain, served = filled.one(item, kamera={"reuse": False}), filled.one(item)
        assert plain.num_cached == 0
        assert served.num_cached == item.num_held
        assert served.token_ids == plain.token_ids == (item.token("re-prefill"),)
        theirs = gap(served.logprobs, item.logprobs["re-prefill"])
        common = plain.logprobs.keys() & served.logprobs.keys()
        mine = max(abs(plain.logprobs[t] - served.logprobs[t]) for t in common)
        figures.highest("exact", model, full_rank_against_plain=mine)
        assert max(mine, theirs) <= BOUND


def test_without_patches_is_the_masked_oracle(
    model: str, filled: Engine, items: list[Item], figures: Figures
) -> None:
    for item in items:
        served = filled.one(item, kamera=BLIND)
        assert served.num_cached == item.num_held
        assert served.token_ids == (item.token("blind"),)
        found = gap(served.logprobs, item.logprobs["blind"])
        figures.highest("exact", model, blind_against_oracle=found, bound=BOUND)
        assert found <= BOUND


@pytest.mark.parametrize(
    "broken", [WRONG_SHIFT, WRONG_IMAGE], indirect=True, ids=["shift", "image"]
)
def test_a_wrong_shift_or_image_leaves_the_bound(broken: Engine, items: list[Item]) -> None:
    for item in items:
        patched, blind = broken.one(item), broken.one(item, kamera=BLIND)
        assert patched.num_cached == blind.num_cached == item.num_held
        assert gap(patched.logprobs, item.logprobs["re-prefill"]) > 10 * BOUND
        assert gap(blind.logprobs, item.logprobs["blind"]) > 10 * BOUND


def test_a_batch_is_served_as_each_alone(filled: Engine, items: list[Item]) -> None:
    for item, served in zip(items, filled.ask(*items), strict=True):
        assert served.num_cached == item.num_held
        assert gap(served.logprobs, item.logprobs["re-prefill"]) <= BOUND


def test_only_the_tail_is_computed(filled: Engine, items: list[Item]) -> None:
    """By the engine's own counters: what it computed, and what came from the connector."""
    before, seen = filled.call("stats"), filled.call("num_seen")
    filled.ask(*items)
    after = filled.call("stats")
    assert filled.call("num_seen") == seen
    held = sum(item.num_held for item in items)
    tails = sum(len(item.prompt_token_ids) - item.num_held for item in items)
    grown = {name: after[name] - before.get(name, 0.0) for name in after}
    assert grown["kamera:tokens_saved_total"] == held
    assert grown[f"{SOURCES}/external_kv_transfer"] == held
    assert grown[f"{SOURCES}/local_compute"] == tails
