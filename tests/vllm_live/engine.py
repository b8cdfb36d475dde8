"""An engine in a process of its own, called from the test's."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from types import TracebackType
from typing import Any, Self

from answer import Answer
from environment import PYTHON, environment
from places import checkpoint
from reference import Item

CHILD = Path(__file__).with_name("engine_child.py")
SETTLE = """
from vllm.distributed.kv_transfer import get_kv_transfer_group
get_kv_transfer_group()._worker.settle()
"""
START_S, CALL_S, HELD_S = 240, 240, 60


class EngineError(RuntimeError):
    """What the child raised, with its traceback."""


class Engine:
    """`vllm.LLM` in one process; requests by items of the reference.

    Args:
        model: a packaged checkpoint's name, or a folder.
        log: where the process writes.
        kamera: the connector's settings; None for plain vLLM.
        options: keyword arguments of `vllm.LLM`.
    """

    def __init__(
        self, model: str | Path, log: Path, kamera: dict[str, Any] | None = None, **options: Any
    ) -> None:
        self.log = log
        mine, theirs = socketpair()
        env = environment(VLLM_ENABLE_V1_MULTIPROCESSING="0", **options.pop("environment", {}))
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [PYTHON, str(CHILD), str(theirs.fileno())],
                env=env,
                pass_fds=[theirs.fileno()],
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        theirs.close()
        self._pipe = Connection(mine.detach())
        folder = checkpoint(model) if isinstance(model, str) else model
        self._pipe.send((str(folder), kamera, options))
        try:
            self._take(START_S)
        except EngineError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the store on disk stays."""
        self._pipe.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """A method of the child's engine."""
        self._pipe.send((name, args, kwargs))
        return self._take(CALL_S)

    def ask(self, *items: Item, **options: Any) -> list[Answer]:
        """All items in one batch."""
        requests = [(item.images, item.question) for item in items]
        answers: list[Answer] = self.call("ask", requests, **options)
        return answers

    def one(self, item: Item, **options: Any) -> Answer:
        """One item alone."""
        return self.ask(item, **options)[0]

    def fill(self, items: Sequence[Item], salt: str | None = None) -> None:
        """A solo request for each chunk of the items."""
        images = dict.fromkeys(image for item in items for image in item.images)
        spans = dict.fromkeys(span for item in items for span in item.text_spans())
        self.call("solo", list(images), list(spans), salt)

    def until_held(self, item: Item, **options: Any) -> Answer:
        """Ask until all that can be held is: workers in processes of their own can't be waited for."""
        deadline = time.monotonic() + HELD_S
        while (answer := self.one(item, **options)).num_cached < item.num_held:
            assert time.monotonic() < deadline, f"only {answer.num_cached} of {item.num_held} held"
            time.sleep(0.1)
        return answer

    def settle(self) -> None:
        """Wait until what the engine's prefills gave is formed and stored."""
        self.call("run", SETTLE)

    def _take(self, timeout_s: float) -> Any:
        if not self._pipe.poll(timeout_s):
            raise EngineError(f"No answer in {timeout_s} s; the log's end:\n{self._tail()}")
        try:
            done, value = self._pipe.recv()
        except EOFError:
            raise EngineError(f"The engine is gone; the log's end:\n{self._tail()}") from None
        if not done:
            raise EngineError(value)
        return value

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]
