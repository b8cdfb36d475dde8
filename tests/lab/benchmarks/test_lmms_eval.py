"""lmms-eval itself runs a local task with `--model kamera`. Needs lmms-eval, in an environment of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kamera
from kamera.errors import ConfigError
from kamera.lab.tasks import TASKS

NUM_ITEMS = 6
TASK = """\
task: local_binding
dataset_path: json
dataset_kwargs:
  data_files: {rows}
test_split: train
output_type: generate_until
doc_to_messages: !function local_binding.messages
doc_to_text: question
doc_to_target: answer
generation_kwargs:
  max_new_tokens: 4
  until: ["."]
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
process_results: !function local_binding.results
"""
CODE = """\
from PIL import Image


def messages(doc):
    images = [{"type": "image", "url": Image.open(path)} for path in doc["images"]]
    return [{"role": "user", "content": [*images, {"type": "text", "text": doc["question"]}]}]


def results(doc, found):
    return {"exact_match": float(found[0] == doc["answer"])}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task's folder: binding items, each asked twice."""
    folder = tmp_path_factory.mktemp("task")
    rows: list[dict[str, Any]] = []
    for number, item in enumerate(TASKS["binding"].items(NUM_ITEMS // 2, seed=7)):
        paths = [str(folder / f"{number}-{at}.png") for at in range(len(item.frames))]
        for frame, path in zip(item.frames, paths, strict=True):
            frame.image.save(path)
        rows += [{"images": paths, "question": item.question, "answer": item.answer}] * 2
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "local_binding.yaml").write_text(TASK.format(rows=folder / "rows.jsonl"))
    (folder / "local_binding.py").write_text(CODE)
    return folder


def run(task: Path, out: Path, model_args: str) -> dict[str, Any]:
    """What lmms-eval's own command line reports."""
    arguments = f"--tasks local_binding --batch_size 1 --device cpu --include_path {task}"
    given = f"pretrained={kamera.packaged_model()},dtype=float32{model_args}"
    command = [sys.executable, "-m", "lmms_eval", "--model", "kamera", "--model_args", given]
    command += [*arguments.split(), "--output_path", str(out), "--log_samples"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(out / "hf")}
    done = subprocess.run(
        command,
        env={**os.environ, **offline, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (report,) = out.rglob("*results.json")
    (samples,) = out.rglob("*samples*.jsonl")
    report_json: dict[str, Any] = json.loads(report.read_text())
    answers = [json.loads(line) for line in samples.read_text().splitlines()]
    return {
        "score": report_json["results"]["local_binding"]["exact_match,none"],
        "answers": [one["filtered_resps"] for one in answers],
    }


def test_kamera_answers_as_re_prefill_does(task: Path, tmp_path: Path) -> None:
    kept = run(task, tmp_path / "kamera", f",store={tmp_path / 'store'}")
    plain = run(task, tmp_path / "plain", ",arm=re-prefill")
    assert len(plain["answers"]) == NUM_ITEMS
    assert plain["score"] >= 0.6
    assert kept == plain
    assert any((tmp_path / "store").rglob("*.safetensors"))


def test_what_was_seen_is_not_prefilled_again() -> None:
    from kamera.lab.benchmarks.lmms import Kamera, item_of

    model = Kamera(str(kamera.packaged_model()), dtype="float32")
    (drawn,) = TASKS["binding"].items(1, seed=7)
    content = [{"type": "image", "url": frame.image} for frame in drawn.frames]
    asked = [{"role": "user", "content": [*content, {"type": "text", "text": drawn.question}]}]
    item = item_of(asked, "item", 8)
    first = model._generate(item, 4)
    prefilled = model.num_prefilled
    assert prefilled > 0
    assert model._generate(item, 4) == first
    assert model.num_prefilled == prefilled
    assert model.num_shown == 2 * prefilled


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([{"role": "system", "content": []}], "expected one user message"),
        ([{"role": "user", "content": []}], "expected a question behind the images"),
        ([{"role": "user", "content": [{"type": "audio", "url": "x"}]}], "got 'audio'"),
    ],
)
def test_a_request_of_another_form_is_refused(messages: list[Any], expected: str) -> None:
    from kamera.lab.benchmarks.lmms import item_of

    with pytest.raises(ConfigError, match=expected):
        item_of(messages, "item", 8)


def test_model_arguments_that_can_not_be_right_are_refused() -> None:
    from kamera.lab.benchmarks.lmms import Kamera

    with pytest.raises(ConfigError, match="Invalid arm"):
        Kamera("nowhere", arm="fast")
    with pytest.raises(ConfigError, match="Invalid batch_size"):
        Kamera("nowhere", batch_size=4)
