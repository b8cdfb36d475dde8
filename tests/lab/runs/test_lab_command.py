"""`kamera lab`: its commands, and what bad input gives."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from lab_doubles import one_run
from typer.main import get_command
from typer.testing import CliRunner

from kamera import packaged_model
from kamera.cli.app import app
from kamera.errors import ConfigError
from kamera.lab.reproductions.names import reproduction_names
from kamera.lab.reproductions.registry import REPRODUCTIONS
from kamera.lab.runs import catalog, worker
from kamera.lab.runs.catalog import RUNS


def invoke(*args: object) -> Result:
    return CliRunner().invoke(app, ["lab", *map(str, args)])


def test_every_run_is_a_command_with_its_title() -> None:
    root: Any = get_command(app)
    commands = root.commands["lab"].commands
    assert set(commands) == {*RUNS, "all", "report", "benchmark"}
    assert set(reproduction_names()) == set(REPRODUCTIONS)
    for name, title in reproduction_names().items():
        assert commands[name].help == title
        assert title.endswith(".")


@pytest.fixture
def tiny_catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three runs that ask little of a model: the second fails."""

    def seen(subject: Any) -> Any:
        value = {"value": float(subject.num_items), "low": None, "high": None, "n": 1}
        return {"figures": {"eta": value, "bytes": value}}

    def fails(subject: Any) -> Any:
        raise RuntimeError("out of <luck>")

    runs = {
        "table6": one_run("table6", run=seen),
        "fig3": one_run("fig3", run=fails),
        "probes": one_run("probes", run=seen),
    }
    monkeypatch.setattr(catalog, "RUNS", runs)
    monkeypatch.setattr(worker, "is_installed", lambda: False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("tiny_catalog")
def test_all_goes_on_after_a_failure_and_ends_in_exit_code_1() -> None:
    done = invoke("all", "--model", "nano-gqa", "--items", 3, "--out", "lab")
    assert done.exit_code == 1, done.output
    assert "fig3 failed on nano-gqa: RuntimeError: out of <luck>" in done.stderr
    report = json.loads(Path("lab.json").read_text(encoding="utf-8"))
    assert report["fig3"]["models"]["nano-gqa"] == {"failed": "RuntimeError: out of <luck>"}
    for name in ("table6", "probes"):
        section = report[name]
        assert section["models"]["nano-gqa"]["figures"]["eta"]["value"] == 3
        assert section["command"] == f"kamera lab {name} --model nano-gqa --items 3 --seed 0"
    page = Path("lab.html").read_text(encoding="utf-8")
    assert "nano-gqa was not measured: RuntimeError: out of &lt;luck&gt;" in page
    Path("lab.html").unlink()
    assert invoke("report", "lab.json", "--out", "again.html").exit_code == 0
    assert Path("again.html").read_text(encoding="utf-8") == page


@pytest.mark.usefixtures("tiny_catalog")
def test_a_run_shows_its_claims_and_leaves_other_sections() -> None:
    Path("lab.json").write_text(json.dumps({"version": 1, "mine": {"a": 1}}))
    done = invoke("table6", "--model", "nano-gqa", "--items", 3, "--out", "lab.json")
    assert done.exit_code == 0, done.output
    assert "does not hold" in done.stdout  # the bytes
    assert "holds" in done.stdout
    report = json.loads(Path("lab.json").read_text(encoding="utf-8"))
    assert report["mine"] == {"a": 1}
    assert report["table6"]["models"]["nano-gqa"]["dtype"] == "float32"


@pytest.mark.usefixtures("tiny_catalog")
def test_the_dtype_reaches_the_model() -> None:
    args = ("table6", "--model", "nano-gqa", "--dtype", "bfloat16", "--out", "lab")
    assert invoke(*args).exit_code == 0
    section = json.loads(Path("lab.json").read_text(encoding="utf-8"))["table6"]
    assert section["models"]["nano-gqa"]["dtype"] == "bfloat16"
    assert section["command"].endswith("--seed 0 --dtype bfloat16")


@pytest.mark.usefixtures("tiny_catalog")
@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("table6", "--model", "nowhere"), "No checkpoint at nowhere"),
        (("all", "--model", "nowhere"), "No checkpoint at nowhere"),
        (("table6", "--model", "nano-gqa", "--dtype", "int3"), "int3"),
        (("table6", "--model", "nano-gqa", "--dtype", "int8"), "No dtype 'int8'"),
        (("table6", "--model", "nano-gqa", "--text-model", "no"), "No checkpoint at no"),
        (("fig3", "--model", "nano-gqa"), "out of <luck>"),
        (("table6", "--items", "0"), "greater than or equal to 1"),
        (("table6", "--out", "lab.json/lab"), "Can't"),
        (("report", "nowhere.json"), "Can't read nowhere.json"),
    ],
)
def test_bad_input_is_said_and_loses_nothing(args: tuple[str, ...], says: str) -> None:
    kept = json.dumps({"version": 1, "table6": {"a": 1}})
    Path("lab.json").write_text(kept)
    out = () if "--out" in args or args[0] == "report" else ("--out", "lab.json")
    done = invoke(*args, *out)
    assert done.exit_code == 2
    assert says in done.stderr
    assert Path("lab.json").read_text() == kept


def test_a_report_that_cannot_be_added_to_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text("mine")
    done = invoke("binding", "--out", f"{tmp_path}/lab.json")
    assert done.exit_code == 2
    assert "expected a report of the lab" in done.stderr
    assert (tmp_path / "lab.json").read_text() == "mine"


@pytest.fixture
def language_model(tmp_path: Path) -> Path:
    """A Llama of random weights, with the packaged model's tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path / "text"
    config = LlamaConfig(
        vocab_size=512, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=512,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).write_bytes(
            (packaged_model() / name).read_bytes()
        )  # else refused for these
    return folder


@pytest.mark.parametrize("name", ["probes", "all"])
@pytest.mark.parametrize("beside", [(), ("--model", "nano-gqa")])
def test_a_language_model_is_refused_once_and_before_the_work(
    name: str,
    beside: tuple[str, ...],
    language_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kamera.lab.runs.lab.run_lab", None)  # isn't come to
    done = invoke(name, *beside, "--model", language_model, "--out", tmp_path / "lab")
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert "text (llama) takes no image" in done.stderr
    assert "kamera lab fig10 --model" in done.stderr
    assert "--text-model" in done.stderr
    assert not (tmp_path / "lab.json").exists()


def test_the_run_with_text_takes_a_language_model(language_model: Path, tmp_path: Path) -> None:
    done = invoke("fig10", "--model", language_model, "--items", 1, "--out", tmp_path / "lab",
                  "--text-model", language_model)  # fmt: skip
    assert done.exit_code == 0, done.stderr
    report = json.loads((tmp_path / "lab.json").read_text(encoding="utf-8"))
    assert "failed" not in report["fig10"]["models"]["text"]


@pytest.mark.parametrize(("name", "written"), [("fig5", False), ("fig10", True), ("all", True)])
def test_the_packaged_text_model_is_written_for_the_run_that_asks_it_alone(
    name: str, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("kamera.lab.runs.worker.packaged_text_model", lambda: asked.append(name))

    def run_lab(*args: object, **options: object) -> None:
        raise ConfigError("enough")

    monkeypatch.setattr("kamera.lab.runs.lab.run_lab", run_lab)
    assert invoke(name, "--model", "nano-gqa", "--out", tmp_path / "lab").exit_code == 2
    assert bool(asked) is written


@pytest.mark.parametrize("has_report", [True, False])
def test_an_interrupted_run_says_what_is_kept(
    has_report: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_lab(names: object, folders: object, settings: object, **options: object) -> None:
        if has_report:
            (tmp_path / "lab.json").write_text("{}")  # what was measured before
        raise KeyboardInterrupt

    monkeypatch.setattr("kamera.lab.runs.lab.run_lab", run_lab)
    done = invoke(
        "all", "--model", "nano-gqa", "--text-model", "nano-gqa", "--out", tmp_path / "lab"
    )
    assert done.exit_code == 130
    assert (f"kamera lab report {tmp_path}/lab.json" in done.stderr) is has_report
    assert ("Nothing was measured yet" in done.stderr) is not has_report
