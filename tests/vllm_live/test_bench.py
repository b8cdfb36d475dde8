"""The benchmark in its short form: it runs, and says what it must. How fast is for a quiet machine to say."""

import json
import subprocess

from environment import PYTHON, environment
from places import FIGURES, ROOT

SCRIPT = ROOT / "benchmarks" / "bench_vllm.py"


def test_the_last_line_is_the_report() -> None:
    done = subprocess.run(
        [PYTHON, str(SCRIPT), "--short"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report == json.loads(FIGURES.read_text())["ttft"]["nano-gqa"]
    arms = report["arms"]
    for arm in ("plain", "prefix caching", "kamera"):
        for name in ("first sight", "again"):
            assert arms[arm][name]["all"]["n"] == report["num_requests"]
            assert arms[arm][name]["all"]["ttft_min_s"] > 0
    assert arms["plain"]["again"]["all"]["computed_share"] == 1.0
    slides = {arm: arms[arm]["first sight"]["slide"]["computed_share"] for arm in arms}
    assert slides["prefix caching"] > 0.9  # a window that slid has another prefix
    assert slides["kamera"] < 0.6  # only what came in, and the tail
