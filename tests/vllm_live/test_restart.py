"""The store outlives its process; what is broken in it is prefilled; salts and versions are kept apart."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine import Engine
from figures import Figures
from reference import Item, gap, some

BOUND = 1e-4
SETTINGS = {"rank": 1 << 20}


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return some("nano-gqa", 4)


@pytest.fixture(scope="module")
def folder(items: list[Item], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that a process filled, and was then killed."""
    folder = tmp_path_factory.mktemp("restart")
    with Engine("nano-gqa", folder / "log", SETTINGS | {"store": str(folder / "store")}) as engine:
        for item in items:
            cold = engine.one(item)  # first sight: its canonicals come afterwards
            assert cold.num_cached < item.num_held
            assert gap(cold.logprobs, item.logprobs["re-prefill"]) <= BOUND
        assert engine.call("num_seen") == len({image for item in items for image in item.images})
        engine.fill(items)
        engine.settle()
    return folder


@pytest.fixture
def restarted(folder: Path) -> Iterator[Engine]:
    settings = SETTINGS | {"store": str(folder / "store")}
    with Engine("nano-gqa", folder / "log", settings) as engine:
        yield engine


def test_a_cold_process_serves_what_another_stored(
    restarted: Engine, items: list[Item], figures: Figures
) -> None:
    """Its vision tower never ran, and it computed the tails alone."""
    for item in items:
        served = restarted.one(item)
        assert served.num_cached == item.num_held
        assert gap(served.logprobs, item.logprobs["re-prefill"]) <= BOUND
    stats, seen = restarted.call("stats"), restarted.call("num_seen")
    computed = stats["vllm:prompt_tokens_by_source_total/local_compute"]
    tails = sum(len(item.prompt_token_ids) - item.num_held for item in items)
    shown = sum(len(item.images) for item in items)
    figures.add(
        "restart",
        "nano-gqa",
        {
            "images_shown": shown,
            "vision_tower_runs": seen,
            "held_tokens": sum(item.num_held for item in items),
            "held_tokens_prefilled": computed - tails,
        },
    )
    assert (seen, computed) == (0, tails)


def test_what_is_broken_in_the_store_is_prefilled(
    folder: Path, items: list[Item], tmp_path: Path
) -> None:
    """A cut file and a file of noise; a live engine reads neither into an answer."""
    files = sorted((folder / "store").rglob("*.safetensors"))
    assert len(files) > 2 * len(items)
    held = {path: path.read_bytes() for path in files}
    settings = SETTINGS | {"store": str(folder / "store"), "fill": "off"}
    try:
        with Engine("nano-gqa", folder / "log", settings) as engine:
            for number, path in enumerate(files):
                broken = held[path][:-100] if number % 2 else bytes(len(held[path]))
                path.write_bytes(broken)
            for item in items:
                answer = engine.one(item)
                assert answer.token_ids == (item.token("re-prefill"),)
                assert gap(answer.logprobs, item.logprobs["re-prefill"]) <= BOUND
            assert engine.call("stats")["kamera:loads_failed_total"] > 0
    finally:
        for path, content in held.items():
            path.write_bytes(content)
