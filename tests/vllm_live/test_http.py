"""The four tasks over HTTP with real images, by `kamera serve`: each arm as Transformers has it.

vLLM's own prefix cache is off: it would answer a repeated prompt exactly, whatever the arm.
"""

import asyncio
from collections.abc import Iterator

import pytest
from answer import Answer
from figures import Figures
from reference import Item, items_of
from server import Server

WITHIN = 0.01
ARMS = {"re-prefill": {"reuse": False}, "blind": {"patch": "none"}, "patch 16": None}
"""Arm -> what its requests say; None: a client that knows nothing of Kamera, at second sight."""


@pytest.fixture(scope="module", params=["nano-gqa", "nano-mla"])
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def server(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("http")
    with Server.kamera(
        model, folder / "log", "--store", str(folder / "store"), "--fill", "eager",
        "--fill-per-minute", "6000", vllm=["--no-enable-prefix-caching"],
    ) as served:  # fmt: skip
        yield served


def test_every_arm_is_transformers(model: str, server: Server, figures: Figures) -> None:
    items = items_of(model)
    requests = [(item.images, item.question) for item in items]
    asyncio.run(server.ask_all(requests))  # first sight
    figures.add("fill", model, server.until_filled())
    for arm, asked in ARMS.items():
        before = server.metrics()
        answers = asyncio.run(server.ask_all(requests, kamera=asked))
        told = {"all": of(items, answers, arm)}
        for task in dict.fromkeys(item.task for item in items):
            pairs = [p for p in zip(items, answers, strict=True) if p[0].task == task]
            told[task] = of([i for i, _ in pairs], [a for _, a in pairs], arm)
        figures.add("tasks", f"{model}/{arm}", told)
        for task, found in told.items():
            for figure in ("accuracy", "agreement"):
                apart = abs(found[figure] - found[f"{figure}_transformers"])
                assert apart <= WITHIN, (task, arm, figure, found)
        if arm != "re-prefill":
            check_counters(items, answers, before, server.metrics())


def of(items: list[Item] | tuple[Item, ...], answers: list[Answer], arm: str) -> dict[str, float]:
    """Accuracy, and agreement with re-prefill, beside Transformers' own."""
    n = len(items)
    found = [answer.token_ids[0] for answer in answers]
    theirs = [item.token(arm) for item in items]
    right = [item.answer_id for item in items]
    reference = [item.token("re-prefill") for item in items]
    return {
        "n": n,
        "accuracy": share(found, right),
        "accuracy_transformers": share(theirs, right),
        "agreement": share(found, reference),
        "agreement_transformers": share(theirs, reference),
        "same_answer_as_transformers": share(found, theirs),
    }


def share(some: list[int], others: list[int]) -> float:
    """How many are equal."""
    return sum(a == b for a, b in zip(some, others, strict=True)) / len(some)


def check_counters(
    items: tuple[Item, ...],
    answers: list[Answer],
    before: dict[str, float],
    after: dict[str, float],
) -> None:
    """Held chunks weren't prefilled: the engine computed the tails alone."""
    assert [a.num_cached for a in answers] == [i.num_held for i in items]
    grown = {name: value - before.get(name, 0.0) for name, value in after.items()}
    held = sum(item.num_held for item in items)
    tails = sum(len(item.prompt_token_ids) - item.num_held for item in items)
    assert grown["kamera:tokens_saved_total"] == held
    assert grown["vllm:prompt_tokens_by_source_total/local_compute"] == tails
