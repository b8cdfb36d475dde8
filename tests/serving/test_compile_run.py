"""The order in which `kamera compile` asks, with an engine that answers as told."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kamera.engines.vllm.compile import Compiler
from kamera.engines.vllm.compile_engine import ChatAnswer
from kamera.engines.vllm.compile_plan import CompileReport
from kamera.engines.vllm.compile_requests import ChatLine
from kamera.engines.vllm.fill.companion import Sent
from kamera.engines.vllm.fill.source import ImageSource, Source
from kamera.errors import ConfigError

Ask = Callable[[ChatLine], ChatAnswer]


class Engine:
    """Notes what it is asked. A request makes the connector want the texts that it is told to."""

    def __init__(self, store: Path, ask: Ask) -> None:
        self.store, self.answer = store, ask
        self.asked: list[str] = []
        self.is_alive = True
        self.wants: dict[int, str] = {}

    async def send(self, source: Source) -> Sent:
        if isinstance(source, ImageSource):
            self.asked.append(source.url)
        else:
            self.asked.append(f"text {source.token_ids}")
            (self.store / "wanted" / f"{source.token_ids[0]}.json").unlink()
        return Sent(1)

    async def ask(self, line: ChatLine) -> ChatAnswer:
        self.asked.append(f"line {line.number}")
        if name := self.wants.pop(line.number, ""):
            (self.store / "wanted").mkdir(exist_ok=True)
            wanted = {"version": 1, "kind": "text", "token_ids": [int(name)], "cache_salt": None}
            (self.store / "wanted" / f"{name}.json").write_text(json.dumps(wanted))
        return self.answer(line)


def line(number: int, *urls: str) -> ChatLine:
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return ChatLine(number, {"messages": [{"role": "user", "content": parts}]}, Path())


def run(engine: Engine, *lines: ChatLine) -> CompileReport:
    compiler = Compiler(engine, engine.store, lambda *_: None, pause_s=0.0)
    return asyncio.run(compiler.run(lines))


def served(_: Any) -> ChatAnswer:
    return ChatAnswer(100, 80, 80)


def test_images_go_before_their_request_and_texts_after_it(tmp_path: Path) -> None:
    engine = Engine(tmp_path, served)
    engine.wants = {1: "7"}
    report = run(engine, line(1, "data:a", "data:b"), line(4, "data:b", "data:c"))
    assert engine.asked == [
        *("data:a", "data:b", "line 1", "text (7,)"),
        *("data:c", "line 4"),
        *("line 1", "line 4"),
    ]
    assert report == CompileReport(
        num_requests=2,
        num_images=3,
        num_texts=1,
        num_prompt_tokens=200,
        num_reusable_tokens=160,
        num_served_tokens=160,
    )


def test_a_request_that_is_served_late_is_sent_until_it_is(tmp_path: Path) -> None:
    left = iter([0, 10, 80])  # the fill, then two checks
    engine = Engine(tmp_path, lambda _: ChatAnswer(100, 80, next(left)))
    report = run(engine, line(1, "data:a"))
    assert engine.asked.count("line 1") == 3
    assert (report.num_served_tokens, report.unserved) == (80, [])


def test_a_request_that_is_never_served_is_named_and_not_sent_for_ever(tmp_path: Path) -> None:
    never = ChatAnswer(100, 80, 30)
    engine = Engine(tmp_path, lambda one: never if one.number == 2 else served(one))
    report = run(engine, line(1, "data:a"), line(2, "data:b"))
    assert engine.asked.count("line 1") == 2
    assert engine.asked.count("line 2") == 3
    assert report.unserved == [2]
    assert (report.num_served_tokens, report.num_reusable_tokens) == (110, 160)


def test_a_request_that_the_model_cannot_take_is_named_by_its_line(tmp_path: Path) -> None:
    def refuse(one: ChatLine) -> ChatAnswer:
        if one.number == 3:
            raise ValueError("the prompt is\ntoo long " + "x" * 1000)
        return served(one)

    engine = Engine(tmp_path, refuse)
    with pytest.raises(
        ConfigError, match=r"^Line 3: the model can't take this request: the prompt is too"
    ) as caught:
        run(engine, line(1, "data:a"), line(3, "data:b"), line(4, "data:c"))
    assert len(str(caught.value)) < 400
    assert "data:c" not in engine.asked


def test_an_engine_that_dies_is_no_fault_of_the_line(tmp_path: Path) -> None:
    engine = Engine(tmp_path, served)

    def die(_: ChatLine) -> ChatAnswer:
        engine.is_alive = False
        raise RuntimeError("the engine is gone")

    engine.answer = die
    with pytest.raises(RuntimeError, match="the engine is gone"):
        run(engine, line(1, "data:a"))


def test_nothing_to_reuse_is_not_unserved(tmp_path: Path) -> None:
    engine = Engine(tmp_path, lambda _: ChatAnswer(5, 0, 0))
    assert run(engine, line(1)).unserved == []
    assert engine.asked == ["line 1", "line 1"]
