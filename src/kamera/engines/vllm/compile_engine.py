"""vLLM's engine for `kamera compile`, with prompts as vLLM's server would make them (vLLM 0.32)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from kamera.engines.vllm.compile_requests import ChatLine
from kamera.engines.vllm.fill.companion import Sent
from kamera.engines.vllm.fill.sender import VllmSender
from kamera.engines.vllm.fill.source import Source
from kamera.errors import ConfigError

_SHUTDOWN_S = 60.0
"""What the engine gets to finish what it forms and writes."""


@dataclass(frozen=True)
class ChatAnswer:
    """Tokens of a prompt: all, those to the end of its last image, and how many of these the store gave."""

    num_tokens: int
    num_reusable: int
    num_served: int


class ChatEngine:
    """An engine with the connector, and the server's own way from a chat request to a prompt.

    Args:
        arguments: of vLLM's server; those of its HTTP side that don't change a prompt have no effect.
    """

    def __init__(self, arguments: list[str]) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
        from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
        from vllm.utils.argparse_utils import FlexibleArgumentParser
        from vllm.v1.engine.async_llm import AsyncLLM

        cli_env_setup()
        args = make_arg_parser(FlexibleArgumentParser(prog="kamera compile")).parse_args(arguments)
        self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs.from_cli_args(args))
        self._renderer = _renderer(self._engine, args)
        self._sender = VllmSender(self._engine)

    @property
    def is_alive(self) -> bool:
        """False once the engine is gone for good."""
        return self._sender.is_alive

    async def send(self, source: Source) -> Sent:
        """A solo request."""
        return await self._sender.send(source)

    async def ask(self, line: ChatLine) -> ChatAnswer:
        """The line's request, with one token of output.

        Raises:
            Exception: whatever vLLM has against it.
        """
        from vllm import SamplingParams

        rendered = await self._renderer.render_chat(chat_request(line))
        if not isinstance(rendered, tuple):
            raise ValueError(rendered.error.message)
        (engine_input,) = rendered[1]
        params = SamplingParams(max_tokens=1, temperature=0.0, detokenize=False)
        last = None
        async for output in self._engine.generate(
            engine_input, params, f"kamera-compile-{uuid.uuid4().hex}"
        ):
            last = output
        places = [p for of in engine_input.get("mm_placeholders", {}).values() for p in of]
        reusable = max((place.offset + place.length for place in places), default=0)
        served = int(last.num_cached_tokens or 0) if last is not None else 0
        return ChatAnswer(len(engine_input["prompt_token_ids"]), reusable, min(served, reusable))

    def shutdown(self) -> None:
        """End the engine, what it still forms and writes first."""
        self._engine.shutdown(timeout=_SHUTDOWN_S)


def chat_request(line: ChatLine) -> Any:
    """The line as vLLM's server reads a body.

    Raises:
        ConfigError: vLLM wouldn't accept it.
    """
    from pydantic import ValidationError
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    try:
        return ChatCompletionRequest(**line.loaded())
    except (ValidationError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        reason = " ".join(str(error)[:300].split())
        raise ConfigError(f"Line {line.number} isn't a chat request: {reason}") from error


def _renderer(engine: Any, args: Any) -> Any:
    """As the server makes its own, from the same options."""
    from vllm.entrypoints.launchers.cli_args import resolve_default_chat_template_kwargs
    from vllm.renderers.chat_utils import load_chat_template
    from vllm.renderers.online_renderer import OnlineRenderer

    return OnlineRenderer(
        model_config=engine.model_config,
        renderer=engine.renderer,
        request_logger=None,
        chat_template=load_chat_template(args.chat_template),
        chat_template_content_format=args.chat_template_content_format,
        trust_request_chat_template=args.trust_request_chat_template,
        trust_request_mm_kwargs=args.trust_request_mm_kwargs,
        enable_auto_tools=args.enable_auto_tool_choice,
        exclude_tools_when_tool_choice_none=args.exclude_tools_when_tool_choice_none,
        tool_parser=args.tool_call_parser,
        tool_strict_level=args.tool_strict_level,
        reasoning_parser=args.structured_outputs_config.reasoning_parser,
        default_chat_template_kwargs=resolve_default_chat_template_kwargs(args),
    )
