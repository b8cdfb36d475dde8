"""`kamera compile --engine vllm`: fills a store ahead, so that a server without a companion serves from it.

For each request: a solo request for each image that is new, then the request itself, which gives the KV
behind its antecedents, then a solo request for each text that the connector wants. In the end every
request is sent again, and what came from the store is counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kamera.engines.vllm.compile_plan import CompileOptions, CompileReport, engine_arguments
from kamera.engines.vllm.compile_requests import ChatLine
from kamera.engines.vllm.fill.body import images_of
from kamera.engines.vllm.fill.sender import VllmSender
from kamera.engines.vllm.fill.source import TextSource
from kamera.engines.vllm.fill.wanted import Spool
from kamera.engines.vllm.serve import on_cpu, revision_of
from kamera.engines.vllm.served_config import checked
from kamera.engines.vllm.version import check_version
from kamera.errors import ConfigError

Progress = Callable[[str, int, int], None]

_MAX_PASSES = 4
"""Times that the requests are sent again: patches are formed beside the engine, and may come late."""
_PAUSE_S = 1.0
_SHUTDOWN_S = 60.0
"""What the engine gets to finish what it forms and writes."""


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
        _request(line)  # all are read before the engine starts; kept are the lines alone
    return asyncio.run(_Compiler(options, progress).run(arguments, lines))


@dataclass(frozen=True)
class _Answer:
    """Tokens of a prompt: all, those to the end of its last image, and how many of these the store gave."""

    num_tokens: int
    num_reusable: int
    num_served: int


class _Compiler:
    """One run over all requests."""

    def __init__(self, options: CompileOptions, progress: Progress) -> None:
        assert options.settings.store is not None
        self._spool = Spool(Path(options.settings.store), retry_s=1e9, max_tries=1)
        self._progress = progress
        self._report = CompileReport()
        self._sent: set[str] = set()
        self._engine: Any = None
        self._sender: Any = None

    async def run(self, arguments: list[str], lines: Sequence[ChatLine]) -> CompileReport:
        self._progress("start the engine", 0, len(lines))
        self._engine = _engine(arguments)
        self._sender = VllmSender(self._engine)
        try:
            for done, line in enumerate(lines):
                self._progress("fill", done, len(lines))
                await self._fill(line)
            await self._check(lines)
        finally:
            self._engine.shutdown(timeout=_SHUTDOWN_S)
        self._report.num_requests = len(lines)
        return self._report

    async def _fill(self, line: ChatLine) -> None:
        body = json.dumps(line.loaded()).encode()
        images = {i.digest: i for i in images_of(body) if i.digest not in self._sent}
        try:
            await asyncio.gather(*(self._sender.send(image) for image in images.values()))
            await self._ask(line)
        except ConfigError:
            raise
        except Exception as error:
            if self._engine.errored:
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
                await self._sender.send(TextSource(wanted.token_ids, wanted.cache_salt))
                self._report.num_texts += 1
            self._spool.tried(wanted, 0.0)

    async def _check(self, lines: Sequence[ChatLine]) -> None:
        """Send the requests again until each is served, or one more pass serves no more."""
        answers: dict[int, _Answer] = {}
        left, served = list(lines), -1
        for _ in range(_MAX_PASSES):
            await asyncio.sleep(_PAUSE_S)
            await self._texts()
            for done, line in enumerate(left):
                self._progress("check", done, len(left))
                answers[line.number] = await self._ask(line)
            left = [line for line in left if not _is_served(answers[line.number])]
            before, served = served, sum(answer.num_served for answer in answers.values())
            if not left or served == before:
                break
        self._report.num_prompt_tokens = sum(answer.num_tokens for answer in answers.values())
        self._report.num_reusable_tokens = sum(answer.num_reusable for answer in answers.values())
        self._report.num_served_tokens = served
        self._report.unserved = [line.number for line in left]

    async def _ask(self, line: ChatLine) -> _Answer:
        from vllm import SamplingParams

        engine_input = await _rendered(self._engine, _request(line))
        params = SamplingParams(max_tokens=1, temperature=0.0, detokenize=False)
        last = None
        async for output in self._engine.generate(
            engine_input, params, f"kamera-compile-{uuid.uuid4().hex}"
        ):
            last = output
        places = [p for of in engine_input.get("mm_placeholders", {}).values() for p in of]
        reusable = max((place.offset + place.length for place in places), default=0)
        served = int(last.num_cached_tokens or 0) if last is not None else 0
        return _Answer(len(engine_input["prompt_token_ids"]), reusable, min(served, reusable))


def _is_served(answer: _Answer) -> bool:
    return answer.num_served >= answer.num_reusable


def _engine(arguments: list[str]) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.v1.engine.async_llm import AsyncLLM

    cli_env_setup()
    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser(prog="kamera compile"))
    args = parser.parse_args(arguments)
    return AsyncLLM.from_engine_args(AsyncEngineArgs.from_cli_args(args))


def _request(line: ChatLine) -> Any:
    """The line as vLLM's server reads it, so that its prompt is the same.

    Raises:
        ConfigError: vLLM wouldn't accept it.
    """
    from pydantic import ValidationError
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    try:
        return ChatCompletionRequest(**line.loaded())
    except (ValidationError, ValueError) as error:
        reason = " ".join(str(error)[:300].split())
        raise ConfigError(f"Line {line.number} isn't a chat request: {reason}") from error


async def _rendered(engine: Any, request: Any) -> Any:
    """The engine's input, as the server's chat path makes it."""
    tools = [tool.model_dump() for tool in request.tools] if request.tools else None
    multimodal = engine.model_config.multimodal_config
    chat_params = request.build_chat_params(None, "auto").with_defaults(
        {"tools": tools, "tokenize": False},
        default_media_io_kwargs=multimodal.media_io_kwargs if multimodal else None,
        default_mm_processor_kwargs=request.mm_processor_kwargs,
    )
    names = ("mm_processor_kwargs", "cache_salt")
    extras = {n: v for n in names if (v := getattr(request, n, None)) is not None}
    _, (engine_input,) = await engine.renderer.render_chat_async(
        [request.messages],
        chat_params,
        request.build_tok_params(engine.model_config),
        prompt_extras=extras,
    )
    return engine_input
