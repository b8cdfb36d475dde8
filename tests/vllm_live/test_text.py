"""Text alone, on real weights: SmolLM2-135M, whose requests say where their chunks end."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from answer import Answer
from engine import Engine
from environment import PYTHON, environment
from figures import Figures
from places import BUILD
from reference import gap
from safetensors.torch import load_file
from torch import Tensor

BOUND = 1e-4
SCRIPT = Path(__file__).with_name("write_smollm2.py")


@dataclass(frozen=True, eq=False)
class Text:
    """Two paragraphs and a question: token ids, and Transformers' log-probabilities [vocab]."""

    parts: list[list[int]]
    whole: Tensor
    blind: Tensor

    @property
    def ids(self) -> list[int]:
        return [i for part in self.parts for i in part]

    @property
    def num_held(self) -> int:
        return len(self.parts[0]) + len(self.parts[1])

    @property
    def chunks(self) -> dict[str, list[int]]:
        return {"chunks": [len(part) for part in self.parts[:2]]}


@pytest.fixture(scope="module")
def made() -> Path:
    """The model's folder and the references beside it."""
    folder = BUILD / "smollm2"
    if not (folder / "logprobs.safetensors").exists():
        subprocess.run([PYTHON, str(SCRIPT), str(folder)], env=environment(), check=True)
    return folder


@pytest.fixture(scope="module")
def texts(made: Path) -> list[Text]:
    logprobs = load_file(made / "logprobs.safetensors")["logprobs"]
    rows = json.loads((made / "texts.json").read_text())
    return [Text(parts, *found) for parts, found in zip(rows, logprobs, strict=True)]


@pytest.fixture(scope="module")
def filled(
    made: Path, texts: list[Text], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("text")
    settings = {"store": str(folder / "store"), "rank": 1 << 20}
    with Engine(made / "model", folder / "log", settings) as engine:
        engine.call("solo", [], [part for text in texts for part in text.parts[:2]], None)
        for text in texts:
            ask(engine, text, text.chunks)
        engine.settle()
        yield engine


def ask(engine: Engine, text: Text, asked: object) -> Answer:
    (answer,) = engine.call("ask_text", [text.ids], kamera=asked)
    return answer


def test_a_text_that_names_no_chunks_is_left_alone(filled: Engine, texts: list[Text]) -> None:
    for text in texts:
        answer = ask(filled, text, None)
        assert answer.num_cached == 0
        assert gap(answer.logprobs, text.whole) <= BOUND


def test_full_rank_is_transformers(filled: Engine, texts: list[Text], figures: Figures) -> None:
    for text in texts:
        answer = ask(filled, text, text.chunks)
        assert answer.num_cached == text.num_held
        found = gap(answer.logprobs, text.whole)
        figures.highest("exact", "smollm2-135m", full_rank_against_transformers=found, bound=BOUND)
        assert found <= BOUND


def test_without_patches_is_transformers_with_a_mask(
    filled: Engine, texts: list[Text], figures: Figures
) -> None:
    for text in texts:
        answer = ask(filled, text, text.chunks | {"patch": "none"})
        assert answer.num_cached == text.num_held
        found = gap(answer.logprobs, text.blind)
        figures.highest("exact", "smollm2-135m", blind_against_oracle=found)
        assert found <= BOUND
        assert gap(answer.logprobs, text.whole) > 10 * BOUND
