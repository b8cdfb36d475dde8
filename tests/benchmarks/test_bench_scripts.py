"""The benchmarks run: their last line is JSON, and what they measure is what they say."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kamera.engines.hf import HFEngine

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A benchmark's module by name, its neighbours importable as when it runs."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)

    def load(name: str) -> ModuleType:
        return __import__(name)

    yield load
    for name in set(sys.modules) - before:
        if (FOLDER / f"{name}.py").exists():
            del sys.modules[name]


@pytest.fixture
def subject(script: Any, engine: HFEngine, picture: Any) -> Any:
    """The tiny model with three pictures, of which one is in no window."""
    chunks = [engine.image_chunk(picture(seed)) for seed in (1, 2, 3)]
    vision = {c.media.digest: engine.see(c) for c in chunks if c.media is not None}
    return script("windows").Subject("tiny", engine, tuple(chunks[:2]), chunks[2], vision)


def test_a_short_run_ends_with_json(tmp_path: Path) -> None:
    out = tmp_path / "bytes.json"
    done = subprocess.run(
        [sys.executable, str(FOLDER / "bench_bytes.py"), "--short", "--out", str(out)],
        check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    report = json.loads(done.stdout.splitlines()[-1])
    assert report == json.loads(out.read_text(encoding="utf-8"))
    (one,) = report["geometries"]
    assert one["weighed"]["bytes"] == one["weighed"]["sum_of_parts"]
    for kept in one["patches"]:
        assert kept["sharing"]["1"] < 1, "one context has nothing to share, and a patch on top"
        ratio = 1 if kept["factors"] == "bf16" else 0.5
        # A file's header, and the scales of int8 factors, are beyond the numbers.
        assert kept["share_of_kv"] == pytest.approx(ratio * kept["share_in_numbers"], rel=0.02)


def test_ttft_serves_the_same_request_under_every_arm(script: Any, subject: Any) -> None:
    ttft, serving = script("bench_ttft"), script("serving")
    rows: list[Any] = []
    speedups: list[Any] = []
    ttft.measure_subject(subject, {256: 1, 512: 1}, rows, speedups)
    assert [(row["tokens"], row["arm"]) for row in rows[:6]] == [
        (256, arm)
        for arm in ("question alone", "memcpy + question", "re-prefill", "prefix cache, shifted",
                    "CacheBlend 15%", "Kamera")
    ]  # fmt: skip
    assert all(row["ceiling"] == "question alone" for row in rows)
    assert [one["tokens"] for one in speedups] == [256, 512]
    names = [one["aim"] for one in ttft.aims(speedups)]
    assert len(names) == 2, "CacheBlend is compared from 1024 tokens on"

    session = serving.learned(subject, 2)
    served = serving.Served(session, subject.window(2), check=True)
    logits = {name: arm() for name, arm in served.arms().items()}
    wanted = logits["re-prefill"]
    # Two chunks of 8 tokens: a patch of rank 16 is of full rank, bfloat16 factors apart.
    blind = serving.kl(logits["question alone"], wanted)
    assert blind > 1e-3, "the held KV is blind, and the question must show it"
    assert serving.kl(logits["prefix cache, shifted"], wanted) < 1e-6 * blind
    assert serving.kl(logits["Kamera"], wanted) < 1e-2 * blind
    assert serving.kl(logits["memcpy + question"], logits["question alone"]) == 0.0
    session.close()


def test_a_window_that_is_not_reused_is_not_measured(script: Any, subject: Any) -> None:
    serving = script("serving")
    session = serving.learned(subject, 2)
    served = serving.Served(session, subject.window(2), check=True)
    served.check_reuse()
    kept = session.store.keys()
    for key in kept:
        if key.kind == "patch":
            session.store.delete(key)
    with pytest.raises(RuntimeError, match="Not all was reused"):
        served.check_reuse()
    session.close()


def test_break_even_is_where_the_sums_meet(script: Any) -> None:
    amortise, harness = script("bench_amortise"), script("harness")
    timings = {
        name: harness.Timing.of([seconds])
        for name, seconds in (
            ("re-prefill", 10.0), ("Kamera", 1.0), (amortise.FIRST, 26.0), (amortise.PAID, 26.0)
        )
    }  # fmt: skip
    found = amortise.break_even(timings)
    assert (found["free"], found["paid"]) == (2, 3)
    sums = list(zip(found["free_s"], found["reprefill_s"], strict=True))
    assert [free <= prefill for free, prefill in sums[:4]] == [False, False, True, True]
    paid = list(zip(found["paid_s"], found["reprefill_s"], strict=True))
    assert [one <= prefill for one, prefill in paid[:4]] == [False, False, True, True]
    timings["Kamera"] = harness.Timing.of([11.0])
    assert amortise.break_even(timings)["free"] is None


def test_all_reports_are_merged(script: Any, tmp_path: Path) -> None:
    everything = script("everything")
    assert "vllm" not in everything.names()
    assert {"ttft", "amortise", "bytes"} <= set(everything.names())
    (tmp_path / "ttft.json").write_text(json.dumps({"benchmark": "ttft"}))
    (tmp_path / "stale.json").write_text("{}")
    merged = everything.merged(tmp_path, {"ttft": 2.0, "failed": 1.0})
    assert merged == {"version": 1, "benchmarks": {"ttft": {"benchmark": "ttft", "seconds": 2.0}}}
