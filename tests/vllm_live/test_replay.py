"""Agents with real screenshots over HTTP: windows that slide, clients at once, little room.

The plug-in stands beside plain vLLM's own command. Patches are of full rank and nothing is kept past its
antecedent, so every composed answer must be the one that the request gets alone and without reuse.
"""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from agents import QUESTION, Window, trajectories, windows_of
from answer import Answer
from figures import Figures
from server import REQUEST_S, Server

BOUND, MARGIN = 1e-4, 1e-3
NUM_TOKENS = 24
PLAIN = {"reuse": False}
SETTINGS = {
    "rank": 1 << 20,
    "keep_survivors": False,
    "fill": "eager",
    "fill_per_minute": 6000,
}
SALTS = (None, None, "agents", "agents", "agents")
"""Of the rounds; vLLM's own prefix cache is emptied before each. Without one all clients share it."""
LITTLE_ROOM = ("--block-size", "32", "--num-gpu-blocks-override", "72", "--max-num-seqs", "8")


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> list[list[Window]]:
    found = trajectories(tmp_path_factory.mktemp("frames"), num_frames=5)
    return [windows_of(frames) for frames in found]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("replay")
    settings = SETTINGS | {"store": str(folder / "store")}
    log = folder / "log"
    with Server.vllm("nano-gqa", log, *LITTLE_ROOM, kamera=settings) as served:
        yield served


def test_no_wrong_answer_among_clients_at_once(
    server: Server, agents: list[list[Window]], figures: Figures
) -> None:
    asked = [window for windows in agents for window in windows]
    alone = dict(zip(asked, asyncio.run(one_by_one(server, asked)), strict=True))
    before = server.metrics()
    rounds = []
    for salt in SALTS:
        server.forget_prefixes()
        rounds.append(asyncio.run(all_at_once(server, agents, salt)))
        server.until_filled()
    after = server.metrics()
    grown = {name: value - before.get(name, 0.0) for name, value in after.items()}
    wrong = sum(not same(answer, alone[window]) for answers in rounds for window, answer in answers)
    figures.add(
        "replay",
        "nano-gqa",
        {
            "windows": len(asked),
            "requests": sum(len(answers) for answers in rounds),
            "wrong_answers": wrong,
            "preemptions": grown["vllm:num_preemptions_total"],
            "tokens_saved": grown["kamera:tokens_saved_total"],
            "chunks_served": labelled(grown, "kamera:chunks_served_total"),
            "chunks_missed": labelled(grown, "kamera:chunks_missed_total"),
        },
    )
    strange = asyncio.run(server.ask_all([(asked[-1], QUESTION)], salt="never used before"))
    assert strange[0].num_cached == 0
    assert wrong == 0
    assert grown["vllm:num_preemptions_total"] > 0
    assert grown["kamera:chunks_served_total/exact"] > 2 * len(asked)
    assert grown.get("kamera:loads_failed_total", 0) == 0


def labelled(samples: dict[str, float], name: str) -> dict[str, float]:
    """The samples of one counter, by its label."""
    return {key.partition("/")[2]: v for key, v in samples.items() if key.startswith(f"{name}/")}


async def one_by_one(server: Server, windows: list[Window]) -> list[Answer]:
    """The references: alone, without reuse."""
    return await server.ask_all(
        [(window, QUESTION) for window in windows],
        at_once=1,
        kamera=PLAIN,
        max_tokens=NUM_TOKENS,
    )


async def all_at_once(
    server: Server, agents: list[list[Window]], salt: str | None
) -> list[tuple[Window, Answer]]:
    """Each agent twice: one that asks plainly, one that doesn't know that there is anything to ask."""

    async def walk(windows: list[Window], kamera: object) -> list[tuple[Window, Answer]]:
        options = {"salt": salt} if kamera is None else {"kamera": kamera}
        answers = [
            await server.ask(client, window, QUESTION, max_tokens=NUM_TOKENS, **options)
            for window in windows
        ]
        return list(zip(windows, answers, strict=True))

    async with httpx.AsyncClient(timeout=REQUEST_S) as client:
        walks = [walk(windows, kamera) for windows in agents for kamera in (None, PLAIN)]
        return [pair for pairs in await asyncio.gather(*walks) for pair in pairs]


def same(found: Answer, alone: Answer) -> bool:
    """The first token's log-probabilities, and every token that rounding can't turn."""
    settled = alone.settled(MARGIN)
    common = found.logprobs.keys() & alone.logprobs.keys()
    close = max(abs(found.logprobs[t] - alone.logprobs[t]) for t in common) <= BOUND
    return close and found.token_ids[: len(settled)] == settled
