"""`kamera lab probes` gives what the probes give by themselves."""

import json
from dataclasses import asdict
from pathlib import Path

from typer.testing import CliRunner

import kamera
from kamera.arms import Workbench
from kamera.cli.app import app
from kamera.engines.hf import HFEngine
from kamera.lab.probes.case import cases_of
from kamera.lab.probes.energy import probe_energy
from kamera.lab.probes.selector_recall import probe_selector_recall
from kamera.lab.runs.probes import PROBES
from kamera.lab.tasks import TASKS


def test_the_command_writes_what_the_probes_say(tmp_path: Path) -> None:
    args = ["lab", "probes", "--model", "nano-gqa", "--items", "2", "--out", f"{tmp_path}/lab"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    section = json.loads((tmp_path / "lab.json").read_text(encoding="utf-8"))["probes"]
    assert section["command"] == "kamera lab probes --model nano-gqa --items 2 --seed 0"
    found = section["models"]["nano-gqa"]["probes"]
    assert list(found) == list(PROBES)

    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model()))
    items = TASKS["binding"].items(2, split="test")
    energy = {n: asdict(e) for n, e in probe_energy(cases_of(bench, items)).items()}
    recall = asdict(probe_selector_recall(cases_of(bench, items)))
    assert found["energy"] == json.loads(json.dumps(energy))
    assert found["selector_recall"] == json.loads(json.dumps(recall))
    assert f"{recall['recall']['cross_mass']:.3f}" in done.stdout
    worst = max(channel["e90_share"] for channel in energy.values())
    figures = section["models"]["nano-gqa"]["figures"]
    assert figures["e90 share"] == {"value": worst, "low": None, "high": None, "n": 2}
    assert found["rank_sweep"]["n"] == 2
