"""What `kamera serve --engine vllm` will run: vLLM's own arguments, and why. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from kamera.engines.vllm.fill import ENDPOINT_PLUGIN, MIDDLEWARE
from kamera.engines.vllm.plugin import CONNECTOR
from kamera.engines.vllm.settings import ConnectorSettings
from kamera.errors import ConfigError
from kamera.support import Verdict

PLUGIN = "kamera"
"""The connector's name among vLLM's general plug-ins."""

OURS = {
    "--model": "give the model in front",
    "--host": "use kamera's own --host",
    "--port": "use kamera's own --port",
    "--kv-transfer-config": "kamera serve writes it",
    "--kv-connector": "kamera serve writes it",
    "--headless": "a headless server has no front end: use vllm serve with the plug-in",
    "--grpc": "the fill companion needs the HTTP server: use vllm serve with the plug-in",
}
"""vLLM options that can't be given again, and what to do."""

SECRETS = ("--api-key", "--hf-token")
"""Options of vLLM's whose values aren't shown."""

IDLE = {
    "--kv-cache-dtype": ("auto",),
    "--pipeline-parallel-size": ("1",),
    "--decode-context-parallel-size": ("1",),
}
"""vLLM options with which the connector serves nothing, and the values with which it does."""

CPU_MLA_COMPILATION = {"custom_ops": ["all", "-rotary_embedding"]}
"""vLLM 0.32's compiled rotary operator on CPU reads MLA's k_pe with the wrong stride; torch's doesn't."""

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class ServeOptions:
    """What the user asked for; `extra` are vLLM's own arguments."""

    model: str
    settings: ConnectorSettings
    host: str = "127.0.0.1"
    port: int = 8000
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServePlan:
    """What will run.

    Attributes:
        arguments: of `vllm serve`.
        environment: variables to set.
        notes: what was chosen, as (what, value) pairs in plain words.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    notes: tuple[tuple[str, str], ...]

    @property
    def command(self) -> str:
        """The same as a shell command, without secrets."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*variables, "vllm", "serve", shlex.join(_hidden(self.arguments))])


def serve_plan(
    options: ServeOptions, verdict: Verdict, *, on_cpu: bool, plugins: Iterable[str]
) -> ServePlan:
    """Arguments, environment and notes.

    Args:
        options: what the user asked for.
        verdict: of the model's config.
        on_cpu: whether vLLM runs on the CPU.
        plugins: vLLM plug-ins that load without being named, or those that the user named.

    Raises:
        ConfigError: an argument of vLLM's that Kamera sets itself, or one that isn't an option.
    """
    given = option_names(options.extra)
    for name in given:
        if name in OURS:
            raise ConfigError(f"{name} can't be given to vLLM here: {OURS[name]}")
    _check_served(options.extra)
    fills = options.settings.fill != "off"
    arguments = [options.model, "--host", options.host, "--port", str(options.port)]
    arguments += ["--kv-transfer-config", json.dumps(transfer_config(options.settings))]
    environment = {"VLLM_PLUGINS": ",".join(dict.fromkeys([*plugins, PLUGIN]))}
    if fills:
        arguments += ["--middleware", MIDDLEWARE]
        environment["VLLM_PLUGINS"] += f",{ENDPOINT_PLUGIN}"
    chosen, reasons = engine_choices(verdict, given, on_cpu=on_cpu)
    arguments += [*chosen, *options.extra]
    return ServePlan(
        tuple(arguments),
        environment,
        (*_notes(options, verdict), *(("chosen", r) for r in reasons)),
    )


def _check_served(extra: tuple[str, ...]) -> None:
    """Refuse what would leave every request to vLLM, and solo requests that nobody keeps."""
    for name, served in IDLE.items():
        value = option_value(extra, name)
        if value is not None and value not in served:
            raise ConfigError(
                f"{name} {value} can't be served with Kamera: expected {' or '.join(served)}; every request "
                "would be left to vLLM. Use vllm serve without the plug-in"
            )


def transfer_config(settings: ConnectorSettings) -> dict[str, object]:
    """vLLM's `--kv-transfer-config` with the plug-in in it."""
    return {
        "kv_connector": CONNECTOR,
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": asdict(settings),
    }


def engine_choices(
    verdict: Verdict, given: Iterable[str], *, on_cpu: bool
) -> tuple[list[str], list[str]]:
    """Arguments that this model needs, unless they were given, and the reasons in plain words."""
    if verdict.attention != "mla" or not on_cpu:
        return [], []
    reasons = ["eager mode and torch's own rotary operator: MLA on CPU is wrong otherwise"]
    arguments: list[str] = []
    if "--compilation-config" in given:
        reasons = ["your --compilation-config: MLA on CPU needs custom_ops with -rotary_embedding"]
    else:
        arguments += ["--compilation-config", json.dumps(CPU_MLA_COMPILATION)]
    if "--enforce-eager" not in given:
        arguments.append("--enforce-eager")
    return arguments, reasons


def _notes(options: ServeOptions, verdict: Verdict) -> list[tuple[str, str]]:
    settings = options.settings
    shown = verdict.family or verdict.model_type
    notes = [("model", f"{options.model} ({shown}, {verdict.status})")]
    notes += [("note", text) for text in verdict.notes]
    kept = str(settings.profile) if settings.rank is None else f"rank {settings.rank}"
    notes.append(("plug-in", f"{CONNECTOR}: patches of {kept}, failed loads recomputed"))
    kept = settings.store or "memory alone"
    tenant = "" if settings.tenant is None else f", tenant {settings.tenant}"
    notes.append(("store", f"{kept}{tenant}"))
    notes.append(("fill", _fill(settings)))
    slides = "chunks keep what they absorbed of those that left: cheap and approximate"
    if not settings.keep_survivors:
        slides = "chunks whose head antecedents left are prefilled again"
    notes.append(("slides", f"{slides} (--keep-survivors / --no-keep-survivors)"))
    if options.host in _LOOPBACK:
        notes.append(("address", f"http://{options.host}:{options.port}, this machine alone"))
    else:
        notes.append(
            ("address", f"http://{options.host}:{options.port}, open to others: see --api-key")
        )
    return notes


def _fill(settings: ConnectorSettings) -> str:
    when = {
        "eager": "at once",
        "idle": "while no client's request is in flight",
        "off": "off: what the store holds is served, nothing is added",
    }[settings.fill]
    if settings.fill == "off":
        return when
    most = f"at most {settings.fill_per_minute} a minute"
    return f"{settings.fill}: solo requests {when}, {most}; GET /kamera/fill"


def _hidden(arguments: Iterable[str]) -> list[str]:
    """The arguments with stars for the values of options that hold secrets."""
    shown, is_secret = [], False
    for arg in arguments:
        if arg.startswith("--"):
            name, has_value, _ = arg.partition("=")
            is_secret = name.replace("_", "-") in SECRETS
            shown.append(f"{name}=***" if is_secret and has_value else arg)
        else:
            shown.append("***" if is_secret else arg)
    return shown


def option_names(extra: tuple[str, ...]) -> list[str]:
    """The options among vLLM's arguments, as `--long-name`: vLLM takes `_` for `-`, `=` and dotted keys.

    Raises:
        ConfigError: the first isn't an option.
    """
    if extra and not extra[0].startswith("-"):
        raise ConfigError(f"Unexpected argument {extra[0]!r}: expected vLLM's options after --")
    return [
        arg.partition("=")[0].partition(".")[0].replace("_", "-")
        for arg in extra
        if arg.startswith("--")
    ]


def option_value(extra: tuple[str, ...], option: str) -> str | None:
    """What an option among vLLM's arguments was given; None if it wasn't."""
    for i, arg in enumerate(extra):
        name, has_value, value = arg.partition("=")
        if name.replace("_", "-") == option:
            return value if has_value else (extra[i + 1] if i + 1 < len(extra) else None)
    return None
