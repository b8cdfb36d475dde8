"""benchmarks/harness.py: what it counts, what it says of it, and what it prints."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def harness() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_harness", FOLDER / "harness.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_harness"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_median_and_quartiles_are_those_of_the_samples(harness: ModuleType) -> None:
    timing = harness.Timing.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (timing.low_s, timing.median_s, timing.high_s) == (2.0, 3.0, 4.0)
    assert timing.samples_s == (5.0, 1.0, 2.0, 4.0, 3.0)


def test_a_wide_spread_is_noisy_and_a_narrow_one_is_not(harness: ModuleType) -> None:
    assert harness.NOISY == 0.2
    assert not harness.Timing.of([1.0, 0.9, 1.0, 1.1, 1.0]).noisy
    assert harness.Timing.of([1.0, 0.8, 1.0, 1.5, 1.3]).noisy


def test_a_ratio_compares_samples_of_one_round(harness: ModuleType) -> None:
    steady = harness.Timing.of([1.0, 10.0, 2.0])  # one slow round, for both
    other = harness.Timing.of([0.5, 5.0, 1.0])
    assert harness.ratio(steady, other) == 2.0


def test_every_arm_runs_once_a_round_after_the_warm_up(
    harness: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    now = iter(range(1000))
    monkeypatch.setattr(harness.time, "perf_counter", lambda: float(next(now)))
    arms = {name: lambda name=name: calls.append(name) for name in "abc"}
    prepare = {"b": lambda: calls.append("before b")}
    timings = harness.measure(arms, repeats=6, warmup=2, prepare=prepare)
    timed = [name for name in calls if name != "before b"]
    rounds = [timed[i : i + 3] for i in range(0, len(timed), 3)]
    assert len(rounds) == 8
    assert all(sorted(found) == ["a", "b", "c"] for found in rounds)
    assert len({tuple(found) for found in rounds}) > 1, "the order isn't drawn anew"
    assert all(calls[i - 1] == "before b" for i in range(len(calls)) if calls[i] == "b"), (
        "an arm wasn't prepared right before its call"
    )
    assert {name: t.samples_s for name, t in timings.items()} == dict.fromkeys("abc", (1.0,) * 6)


def test_what_cannot_be_measured_is_refused(harness: ModuleType) -> None:
    with pytest.raises(ValueError, match="expected one or more arms"):
        harness.measure({}, repeats=3)
    with pytest.raises(ValueError, match="prepared"):
        harness.measure({"a": int}, repeats=1, prepare={"b": int})
    with pytest.raises(ValueError, match="one bound"):
        harness.aim("both", 1.0, at_most=1, at_least=1)


def test_a_row_names_its_ceiling_and_the_distance_to_it(harness: ModuleType) -> None:
    copy, work = harness.Timing.of([1.0, 1.0]), harness.Timing.of([3.0, 3.0])
    made = harness.row("work", work, ("memcpy", copy), rank=8)
    assert made == {
        "name": "work", "rank": 8, "median_s": 3.0, "low_s": 3.0, "high_s": 3.0, "noisy": False,
        "ceiling": "memcpy", "ceiling_s": 1.0, "ratio_to_ceiling": 3.0,
    }  # fmt: skip
    assert harness.row("work", work, ("flops", 1.5))["ratio_to_ceiling"] == 2.0


def test_an_aim_holds_on_its_own_side_of_the_bound(harness: ModuleType) -> None:
    assert harness.aim("x", 1.5, at_most=1.5)["holds"] is True
    assert harness.aim("x", 1.6, at_most=1.5)["holds"] is False
    assert harness.aim("x", 4.9, at_least=5)["holds"] is False


def test_the_last_line_is_the_json_that_was_written(
    harness: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = harness.Timing.of([1.0, 2.0, 3.0])
    out = tmp_path / "deep" / "name.json"
    rows = [harness.row("wild", noisy, ("memcpy", 1.0))]
    harness.finish("name", {"rows": rows, "aims": [harness.aim("tame", 2.0, at_most=1)]}, out)
    lines = capsys.readouterr().out.splitlines()
    assert "1 of 1 rows are noisy" in "\n".join(lines)
    assert any(line.startswith("MISSED") and "tame" in line for line in lines)
    printed = json.loads(lines[-1])
    assert printed == json.loads(out.read_text(encoding="utf-8"))
    assert printed["benchmark"] == "name"
    assert printed["environment"]["commit"].keys() == {"id", "changed"}
    assert printed["environment"]["cpu"]


def test_every_script_says_its_question_and_its_ceiling() -> None:
    scripts = sorted(FOLDER.glob("bench_*.py"))
    assert scripts
    for script in scripts:
        doc = script.read_text(encoding="utf-8").split('"""')[1]
        assert "ceiling" in doc.lower(), f"{script.name} doesn't name its ceiling"
