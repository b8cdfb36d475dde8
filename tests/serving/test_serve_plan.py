"""What `kamera serve --engine vllm` would run, without an engine."""

import json
import shlex
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import kamera
from kamera.cli.model import model_name
from kamera.engines.vllm.serve import loaded_plugins, revision_of, store_folder
from kamera.engines.vllm.serve_plan import OURS, ServeOptions, ServePlan, serve_plan
from kamera.engines.vllm.served_config import checked
from kamera.engines.vllm.settings import ConnectorSettings
from kamera.errors import ConfigError, UnsupportedModelError

OPTIONS = ServeOptions("/models/m", ConnectorSettings(store="/var/store", rank=8))


def plan(
    options: ServeOptions = OPTIONS, model: str = "nano-gqa", on_cpu: bool = True, **kwargs: Any
) -> ServePlan:
    verdict = checked(str(kamera.packaged_model(model)))
    return serve_plan(options, verdict, on_cpu=on_cpu, **{"plugins": ["other"], **kwargs})


def value(made: ServePlan, option: str) -> str:
    return made.arguments[made.arguments.index(option) + 1]


def test_the_connector_gets_all_that_was_asked_for() -> None:
    transfer = json.loads(value(plan(), "--kv-transfer-config"))
    assert transfer["kv_connector"] == "KameraConnector"
    assert transfer["kv_role"] == "kv_both"
    assert transfer["kv_load_failure_policy"] == "recompute"
    assert ConnectorSettings.of(transfer["kv_connector_extra_config"]) == OPTIONS.settings


def test_it_listens_on_this_machine_alone_unless_told() -> None:
    assert value(plan(), "--host") == "127.0.0.1"
    assert dict(plan().notes)["address"].endswith("this machine alone")
    public = plan(replace(OPTIONS, host="0.0.0.0"))
    assert value(public, "--host") == "0.0.0.0"
    assert "--api-key" in dict(public.notes)["address"]


def test_naming_the_endpoint_keeps_the_plugins_that_would_load() -> None:
    assert plan().environment == {"VLLM_PLUGINS": "other,kamera,kamera_fill"}
    assert value(plan(), "--middleware").endswith("FillMiddleware")


def test_without_fill_there_is_neither_middleware_nor_endpoint() -> None:
    off = plan(replace(OPTIONS, settings=ConnectorSettings(store="/s", fill="off")))
    assert "--middleware" not in off.arguments
    assert off.environment == {"VLLM_PLUGINS": "other,kamera"}
    assert dict(off.notes)["fill"].startswith("off")


def test_mla_on_cpu_gets_what_makes_it_right_and_says_so() -> None:
    made = plan(model="nano-mla")
    config = json.loads(value(made, "--compilation-config"))
    assert config == {"custom_ops": ["all", "-rotary_embedding"]}
    assert "--enforce-eager" in made.arguments
    assert "MLA on CPU" in dict(made.notes)["chosen"]


@pytest.mark.parametrize(("model", "on_cpu"), [("nano-mla", False), ("nano-gqa", True)])
def test_other_models_and_machines_get_no_options_of_the_engine(model: str, on_cpu: bool) -> None:
    made = plan(model=model, on_cpu=on_cpu)
    assert "--compilation-config" not in made.arguments
    assert "--enforce-eager" not in made.arguments
    assert "chosen" not in dict(made.notes)


@pytest.mark.parametrize(
    "given",
    [
        ("--compilation-config", "{}"),
        ("--compilation-config={}",),
        ("--compilation_config.mode", "0"),
    ],
)
def test_the_users_own_options_win_over_what_the_model_needs(given: tuple[str, ...]) -> None:
    made = plan(replace(OPTIONS, extra=(*given, "--enforce-eager")), model="nano-mla")
    assert made.arguments[-len(given) - 1 :] == (*given, "--enforce-eager")
    assert made.arguments.count("--enforce-eager") == 1
    assert '{"custom_ops"' not in " ".join(made.arguments)
    assert "-rotary_embedding" in dict(made.notes)["chosen"]


@pytest.mark.parametrize("option", sorted(OURS))
@pytest.mark.parametrize("form", ["{}", "{}=1", "{}.key=1"])
def test_what_kamera_sets_cannot_be_given_again(option: str, form: str) -> None:
    for spelled in (option, option[:2] + option[2:].replace("-", "_")):
        with pytest.raises(ConfigError, match=option):
            plan(replace(OPTIONS, extra=(form.format(spelled), "x")))


def test_what_is_not_an_option_is_refused() -> None:
    with pytest.raises(ConfigError, match="Unexpected argument 'stray'"):
        plan(replace(OPTIONS, extra=("stray",)))


def test_the_command_is_what_a_shell_reads_back() -> None:
    made = plan()
    words = shlex.split(made.command)
    assert words[0] == "VLLM_PLUGINS=other,kamera,kamera_fill"
    assert words[1:3] == ["vllm", "serve"]
    assert tuple(words[3:]) == made.arguments


@pytest.mark.parametrize(
    "given",
    [
        ("--api-key", "secret", "secret", "--seed", "3"),
        ("--api-key=secret", "--seed", "3"),
        ("--hf_token", "secret", "--seed", "3"),
    ],
)
def test_the_command_shows_no_secrets(given: tuple[str, ...]) -> None:
    made = plan(replace(OPTIONS, extra=given))
    assert "secret" in " ".join(made.arguments)
    assert "secret" not in made.command
    assert "***" in made.command
    assert made.command.endswith("--seed 3")


def test_plugins_that_were_named_stay_and_no_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {
        "vllm.general_plugins": ["kamera", "resolver"],
        "vllm.platform_plugins": ["board"],
        "vllm.endpoint_plugins": ["kamera_fill", "foreign"],
    }
    monkeypatch.setattr(
        "kamera.engines.vllm.serve.entry_points",
        lambda group: [SimpleNamespace(name=name) for name in installed.get(group, [])],
    )
    assert loaded_plugins({"VLLM_PLUGINS": "mine,kamera_fill,"}) == ["mine"]
    assert loaded_plugins({"VLLM_PLUGINS": ""}) == []
    assert loaded_plugins({}) == ["board", "kamera", "resolver"]


@pytest.mark.parametrize(
    ("extra", "revision"),
    [
        ((), None),
        (("--revision", "main"), "main"),
        (("--revision=abc",), "abc"),
        (("--revision",), None),
    ],
)
def test_the_revision_is_read_from_vllms_options(
    extra: tuple[str, ...], revision: str | None
) -> None:
    assert revision_of(extra) == revision


def test_a_packaged_models_name_is_its_folder_and_a_folder_wins(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert model_name("nano-gqa") == str(kamera.packaged_model("nano-gqa"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nano-gqa").mkdir()
    assert model_name("nano-gqa") == "nano-gqa"


def write(folder: Any, **config: Any) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_a_model_that_cannot_be_served_is_refused_with_the_reason(tmp_path: Any) -> None:
    with pytest.raises(UnsupportedModelError, match=r"can't be served\. .*vllm serve"):
        checked(write(tmp_path, model_type="bert"))


def test_a_model_without_a_row_in_the_connectors_table_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kamera.engines.vllm.served_config.FAMILIES", {"llava": None})
    with pytest.raises(UnsupportedModelError, match="no row for: expected one of llava"):
        checked(str(kamera.packaged_model("nano-gqa")))


def test_what_is_neither_a_folder_nor_a_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"No folder nano-none: .* nano-gqa"):
        checked("nano-none")


def test_a_name_that_the_hub_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise OSError("no\nsuch repository")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    with pytest.raises(ConfigError, match=r"on the hub \(no such repository\): expected"):
        checked("owner/name")


def test_a_hub_models_config_decides(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def download(name: str, file: str, *, revision: str | None) -> str:
        asked.append((name, file, revision))
        return str(kamera.packaged_model("nano-mha") / "config.json")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert checked("owner/name", "v2").model_type == "llava"
    assert asked == [("owner/name", "config.json", "v2")]


def test_a_store_that_is_a_file_is_refused(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="expected a folder, got a file"):
        store_folder(tmp_path / "file", make=True)
    with pytest.raises(ConfigError, match="Can't make the store's folder"):
        store_folder(tmp_path / "file" / "below", make=True)


def test_a_stores_folder_is_for_its_owner_alone(tmp_path: Any) -> None:
    folder = store_folder(tmp_path / "store", make=True)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not store_folder(tmp_path / "other", make=False).exists()


@pytest.mark.parametrize(
    "extra",
    [
        ("--kv-cache-dtype", "fp8_e5m2"),
        ("--kv_cache_dtype=fp8",),
        ("--pipeline-parallel-size", "2"),
    ],
)
def test_options_that_would_leave_every_request_to_vllm_are_refused(
    extra: tuple[str, ...],
) -> None:
    with pytest.raises(ConfigError, match="can't be served with Kamera: expected"):
        plan(replace(OPTIONS, extra=extra))


def test_the_same_options_pass_at_what_is_served() -> None:
    assert (
        "--kv-cache-dtype" in plan(replace(OPTIONS, extra=("--kv-cache-dtype", "auto"))).arguments
    )


def test_what_a_slide_costs_is_said() -> None:
    def slides(made: ServePlan) -> str:
        return dict(made.notes)["slides"]

    assert "approximate" in slides(plan())
    assert "prefilled again" in slides(
        plan(replace(OPTIONS, settings=ConnectorSettings(keep_survivors=False)))
    )


def test_a_file_isnt_a_model() -> None:
    with pytest.raises(ConfigError, match="expected the checkpoint's folder, got a file"):
        checked(str(kamera.packaged_model("nano-gqa") / "config.json"))
