"""What `kamera compile --engine vllm` is asked for, and what came of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from kamera.engines.vllm.serve_plan import engine_choices, option_names, transfer_config
from kamera.engines.vllm.settings import ConnectorSettings
from kamera.errors import ConfigError
from kamera.support import Verdict


@dataclass(frozen=True)
class CompileOptions:
    """What the user asked for; `extra` are vLLM's own engine options, which must be the server's."""

    model: str
    settings: ConnectorSettings
    extra: tuple[str, ...] = ()


@dataclass
class CompileReport:
    """What came of it.

    Attributes:
        num_requests: lines of the file.
        num_images, num_texts: canonicals that were asked for.
        num_prompt_tokens: of all requests.
        num_reusable_tokens: to the end of each request's last image.
        num_served_tokens: those of them that came from the store when each request was sent again.
        unserved: lines that weren't served up to their last image.
    """

    num_requests: int = 0
    num_images: int = 0
    num_texts: int = 0
    num_prompt_tokens: int = 0
    num_reusable_tokens: int = 0
    num_served_tokens: int = 0
    unserved: list[int] = field(default_factory=list)


def engine_arguments(options: CompileOptions, verdict: Verdict, *, on_cpu: bool) -> list[str]:
    """vLLM's engine arguments.

    Its prefix cache is off: what comes from the store is then told apart from what is still in the engine.

    Raises:
        ConfigError: an argument that Kamera sets itself, or one that isn't an option.
    """
    given = option_names(options.extra)
    for name in ("--model", "--kv-transfer-config"):
        if name in given:
            raise ConfigError(f"{name} can't be given to vLLM here: kamera compile sets it")
    chosen, _ = engine_choices(verdict, given, on_cpu=on_cpu)
    transfer = json.dumps(transfer_config(options.settings))
    arguments = ["--model", options.model, "--kv-transfer-config", transfer]
    return [*arguments, *chosen, *options.extra, "--no-enable-prefix-caching"]
