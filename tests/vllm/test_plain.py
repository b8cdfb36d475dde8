"""Plain vLLM serves the packaged checkpoints as Transformers does: what all else here stands on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine import Engine
from reference import gap, some

BOUND = 1e-4
MODELS = ("nano-gqa", "nano-mla", "nano-mha")


@pytest.fixture(scope="module", params=MODELS)
def plain(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    log: Path = tmp_path_factory.mktemp("plain") / "log"
    with Engine(request.param, log) as engine:
        engine.model = request.param
        yield engine


def test_prompts_are_transformers_token_ids(plain: Engine) -> None:
    items = some(plain.model, 8)
    assert [a.prompt_token_ids for a in plain.ask(*items)] == [i.prompt_token_ids for i in items]


def test_answers_are_transformers(plain: Engine) -> None:
    for item in some(plain.model, 8):
        answer = plain.one(item)
        assert answer.token_ids == (item.token("re-prefill"),)
        assert gap(answer.logprobs, item.logprobs["re-prefill"]) <= BOUND
        assert gap(answer.logprobs, item.logprobs["blind"]) > BOUND
