"""`kamera compile --engine vllm`: fills a store ahead, so that a server without a companion serves from it.

For each request: a solo request for each image that is new, then the request itself, which gives the KV
behind its antecedents, then a solo request for each text that the connector wants. In the end every
request is sent again, and what came from the store is counted.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from kamera.engines.vllm.compile_engine import ChatAnswer, ChatEngine, chat_request
from kamera.engines.vllm.compile_plan import CompileOptions, CompileReport, engine_arguments
from kamera.engines.vllm.compile_requests import ChatLine
from kamera.engines.vllm.fill.body import images_of
from kamera.engines.vllm.fill.companion import Sender
from kamera.engines.vllm.fill.source import TextSource
from kamera.engines.vllm.fill.wanted import Spool
from kamera.engines.vllm.serve import on_cpu, revision_of
from kamera.engines.vllm.served_config import checked
from kamera.engines.vllm.version import check_version
from kamera.errors import ConfigError

Progress = Callable[[str, int, int], None]

_MAX_PASSES = 4
"""Times that the requests are sent again: patches are formed beside the engine, and may come late."""


@runtime_checkable
class Engine(Sender, Protocol):
    """What is asked of the engine: solo requests, and the lines' own."""

    async def ask(self, line: ChatLine) -> ChatAnswer:
        """The line's request; whatever goes wrong is raised."""
        ...


def compile_store(
    options: CompileOptions, lines: Sequence[ChatLine], progress: Progress
) -> CompileReport:
    """Fill the store that the settings name.

    Raises:
        ConfigError, UnsupportedModelError, EngineVersionError: before the engine starts. ConfigError with
            the line's number, too, for a request that the model can't take; what was stored stays.
    """
    verdict = checked(options.model, revision_of(options.extra))
    # Read when vLLM is imported; the progress bar is what is looked at.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    check_version()
    arguments = engine_arguments(options, verdict, on_cpu=on_cpu())
    for line in lines:
        chat_request(line)  # all are read before the engine starts; kept are the lines alone
    assert options.settings.store is not None
    return asyncio.run(_compile(arguments, Path(options.settings.store), lines, progress))


async def _compile(
    arguments: list[str], store: Path, lines: Sequence[ChatLine], progress: Progress
) -> CompileReport:
    progress("start the engine", 0, len(lines))
    engine = ChatEngine(arguments)
    try:
        return await Compiler(engine, store, progress).run(lines)
    finally:
        engine.shutdown()


class Compiler:
    """One run over all requests.

    Args:
        engine: with the connector on the same store.
        store: its folder, where the connector says which texts it wants.
        progress: is told what is done.
        pause_s: what forming gets before the requests are sent again.
    """

    def __init__(
        self, engine: Engine, store: Path, progress: Progress, pause_s: float = 1.0
    ) -> None:
        self._engine, self._progress, self._pause_s = engine, progress, pause_s
        self._spool = Spool(store, retry_s=1e9, max_tries=1)
        self._report = CompileReport()
        self._sent: set[str] = set()

    async def run(self, lines: Sequence[ChatLine]) -> CompileReport:
        """Fill, then send all again and count.

        Raises:
            ConfigError: a request that the model can't take, by its line.
        """
        for done, line in enumerate(lines):
            self._progress("fill", done, len(lines))
            await self._fill(line)
        await self._check(lines)
        self._report.num_requests = len(lines)
        return self._report

    async def _fill(self, line: ChatLine) -> None:
        body = json.dumps(line.loaded()).encode()
        images = {i.digest: i for i in images_of(body) if i.digest not in self._sent}
        try:
            await asyncio.gather(*(self._engine.send(image) for image in images.values()))
            await self._engine.ask(line)
        except ConfigError:
            raise
        except Exception as error:
            if not self._engine.is_alive:
                raise
            reason = " ".join(str(error)[:300].split())
            raise ConfigError(
                f"Line {line.number}: the model can't take this request: {reason}"
            ) from error
        self._sent |= images.keys()
        self._report.num_images += len(images)
        await self._texts()

    async def _texts(self) -> None:
        """The texts that the connector wants by now."""
        self._spool.refresh()
        for wanted in self._spool.due(0.0):
            if wanted.token_ids:
                await self._engine.send(TextSource(wanted.token_ids, wanted.cache_salt))
                self._report.num_texts += 1
            self._spool.tried(wanted, 0.0)

    async def _check(self, lines: Sequence[ChatLine]) -> None:
        """Send the requests again until each is served, or one more pass serves no more."""
        answers: dict[int, ChatAnswer] = {}
        left, served = list(lines), -1
        for _ in range(_MAX_PASSES):
            await asyncio.sleep(self._pause_s)
            await self._texts()
            for done, line in enumerate(left):
                self._progress("check", done, len(left))
                answers[line.number] = await self._engine.ask(line)
            left = [line for line in left if not _is_served(answers[line.number])]
            before, served = served, sum(answer.num_served for answer in answers.values())
            if not left or served == before:
                break
        self._report.num_prompt_tokens = sum(answer.num_tokens for answer in answers.values())
        self._report.num_reusable_tokens = sum(answer.num_reusable for answer in answers.values())
        self._report.num_served_tokens = served
        self._report.unserved = [line.number for line in left]


def _is_served(answer: ChatAnswer) -> bool:
    return answer.num_served >= answer.num_reusable
