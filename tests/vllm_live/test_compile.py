"""`kamera compile` fills a store ahead; an engine that adds nothing then serves all of it."""

import json
import subprocess
from pathlib import Path

from engine import Engine
from environment import PYTHON, environment
from places import checkpoint
from reference import gap, some
from server import data_url

BOUND = 1e-4


def test_what_was_compiled_is_served_at_first_sight(tmp_path: Path) -> None:
    items = some("nano-gqa", 2)
    lines = [
        json.dumps(
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            *(
                                {"type": "image_url", "image_url": {"url": data_url(image)}}
                                for image in item.images
                            ),
                            {"type": "text", "text": item.question},
                        ],
                    }
                ]
            }
        )
        for item in items
    ]
    (tmp_path / "requests.jsonl").write_text("\n".join(lines) + "\n")
    store = tmp_path / "store"
    done = subprocess.run(
        [
            str(Path(PYTHON).with_name("kamera")), "compile", str(checkpoint("nano-gqa")),
            str(tmp_path / "requests.jsonl"), "--store", str(store), "--rank", "1048576",
            "--", "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048",
        ],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    settings = {"store": str(store), "rank": 1 << 20, "fill": "off"}
    with Engine("nano-gqa", tmp_path / "log", settings) as engine:
        for item in items:
            answer = engine.one(item)
            assert answer.num_cached == item.num_held
            assert gap(answer.logprobs, item.logprobs["re-prefill"]) <= BOUND
        assert engine.call("num_seen") == 0
