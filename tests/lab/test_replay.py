"""Replay: what is recorded of frames that go through a window, by every arm."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from kamera.arms import Arm, ArmRequest, Served
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError, KameraError
from kamera.lab.replay import ReplaySettings, replay
from kamera.lab.replay.serving import serve

Frames = Callable[..., Path]
ARMS = ("re-prefill", "prefix cache", "blind", "kamera")
NUM_TOKENS = 8
"""Of one frame: 2 x 3 merged tokens and the two wrappers."""
NOT_HELD = ("form", "recall")


def save_frames(folder: Path, picture: Callable[..., Image.Image], *seeds: int) -> Path:
    """A folder of frames: one a seed, so that equal seeds are equal frames."""
    folder.mkdir()
    for number, seed in enumerate(seeds):
        picture(seed).save(folder / f"screenshot{number}.png")
    return folder


@pytest.fixture
def frames(tmp_path: Path, picture: Callable[..., Image.Image]) -> Frames:
    """Make a folder of frames."""
    return lambda *seeds: save_frames(tmp_path / "frames", picture, *seeds)


@pytest.fixture(scope="module")
def report(
    tiny: Path, tmp_path_factory: pytest.TempPathFactory, picture: Callable[..., Image.Image]
) -> dict[str, Any]:
    """Four frames, a window of three, a look-back after the fourth, a reorder. Read only."""
    folder = tmp_path_factory.mktemp("replay")
    source = save_frames(folder / "frames", picture, 1, 2, 3, 4)
    return replay(
        ReplaySettings(source, tiny, folder / "out", look_back_every=4, rank=4, question="Where?")
    )


@pytest.fixture
def run(tiny: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Replay a folder with the tiny checkpoint."""

    def go(source: Path, **settings: Any) -> dict[str, Any]:
        chosen = {"model": tiny, "out": tmp_path / "out", **settings}
        return replay(ReplaySettings(source, **chosen))

    return go


Run = Callable[..., dict[str, Any]]


def steps_of(report: dict[str, Any], arm: str) -> list[dict[str, Any]]:
    return [step["arms"][arm] for step in report["steps"]]


def num_tokens_not_held(step: dict[str, Any]) -> int:
    sizes = zip(step["chunk_tokens"], step["arms"]["kamera"]["lanes"], strict=True)
    return sum(size for size, lane in sizes if lane in NOT_HELD)


def test_a_sliding_window_costs_kamera_each_distinct_image_once(frames: Frames, run: Run) -> None:
    report = run(frames(1, 2, 3, 4), window=2, look_back_every=0, reorder=False)
    assert report["totals"]["kamera"]["num_vision_runs"] == report["source"]["num_distinct"] == 4
    for number, step in enumerate(report["steps"]):
        served = step["arms"]["kamera"]
        assert served["num_prefilled"] == num_tokens_not_held(step)
        new = 1 if number else 2  # the prefix too, once
        assert sum(lane == "form" for lane in served["lanes"]) == new
        assert served["lanes"][-1] == "form"
        assert "recall" not in served["lanes"]


def test_a_look_back_is_a_recall_of_one_chunk_without_vision(report: dict[str, Any]) -> None:
    back = report["steps"][4]
    assert (back["name"], back["window"]) == ("look back 0", [2, 3, 0])
    served = back["arms"]["kamera"]
    assert served["lanes"][-1] == "recall"
    assert served["num_prefilled"] == num_tokens_not_held(back) == NUM_TOKENS
    assert served["num_vision_runs"] == 0
    assert back["arms"]["blind"]["num_prefilled"] == 0


def test_a_prepared_reorder_prefills_nothing(report: dict[str, Any]) -> None:
    last = report["steps"][-1]
    assert (last["label"], last["window"]) == ("reorder", [0, 3, 2])
    served = last["arms"]["kamera"]
    assert served["num_prefilled"] == served["num_vision_runs"] == 0
    assert "orbit" in served["lanes"]
    prepared = report["preparation"]
    assert prepared["num_orderings"] == 6
    assert prepared["num_formed"] == 6 * sum(last["chunk_tokens"])
    in_steps = sum(step["num_formed"] for step in steps_of(report, "kamera"))
    assert report["totals"]["kamera"]["num_formed"] == in_steps + prepared["num_formed"]


def test_reference_arms_cost_what_their_windows_say(report: dict[str, Any]) -> None:
    held: list[int] = []
    for step in report["steps"]:
        whole = sum(step["chunk_tokens"])
        arms = step["arms"]
        assert arms["re-prefill"]["num_prefilled"] == whole
        assert arms["re-prefill"]["num_vision_runs"] == len(step["window"])
        shared = 0
        while (
            shared < min(len(held), len(step["window"])) and held[shared] == step["window"][shared]
        ):
            shared += 1
        prefix = step["chunk_tokens"][0] if held else 0
        assert arms["prefix cache"]["num_prefilled"] == whole - prefix - NUM_TOKENS * shared
        held = step["window"]


def test_the_reference_agrees_with_itself_and_the_prefix_cache_is_exact(
    report: dict[str, Any],
) -> None:
    totals = report["totals"]
    assert totals["re-prefill"]["mean_kl"] == 0
    assert totals["re-prefill"]["num_same_answers"] == len(report["steps"])
    assert totals["prefix cache"]["mean_kl"] < 1e-6 < totals["blind"]["mean_kl"]
    assert totals["kamera"]["mean_kl"] < totals["blind"]["mean_kl"]


def test_totals_are_sums_over_the_steps(report: dict[str, Any]) -> None:
    assert tuple(report["totals"]) == ARMS
    yardstick = report["totals"]["prefix cache"]["num_prefilled"]
    for arm, total in report["totals"].items():
        steps = steps_of(report, arm)
        assert total["num_steps"] == len(steps)
        assert total["num_prefilled"] == sum(step["num_prefilled"] for step in steps)
        assert total["prefilled_vs_prefix_cache"] == total["num_prefilled"] / yardstick
        assert total["num_same_answers"] == sum(step["same_answer"] for step in steps)
        assert all(step["ttft_s"] > 0 for step in steps)


def test_the_files_hold_what_is_returned(report: dict[str, Any], tiny: Path) -> None:
    assert json.loads(Path(report["files"]["report"]).read_text()) == report
    assert (report["schema"], report["schema_version"]) == ("kamera.replay", 1)
    assert report["settings"]["model"] == str(tiny)
    assert report["settings"]["rank"] == 4
    assert report["model"]["dtype"] == "float32"
    assert report["environment"]["torch"] == torch.__version__
    assert report["environment"]["num_threads"] == torch.get_num_threads()
    with Image.open(report["files"]["plot"]) as plot:
        plot.load()
        assert plot.format == "PNG"


def test_a_longer_question_is_a_longer_tail(frames: Frames, run: Run) -> None:
    source = frames(1)
    short, long = (run(source, question=q)["steps"][0] for q in ("a", "a b c d e f g h"))
    assert long["num_tail"] > short["num_tail"]
    assert long["chunk_tokens"] == short["chunk_tokens"]


def test_repeated_frames_are_seen_once(frames: Frames, run: Run) -> None:
    report = run(frames(1, 1, 2, 1), window=3, look_back_every=0, reorder=False)
    assert report["source"]["num_distinct"] == 2
    assert report["totals"]["kamera"]["num_vision_runs"] == 2
    assert any("repeat" in note for note in report["notes"])


def test_a_window_larger_than_the_frames_is_said(frames: Frames, run: Run) -> None:
    report = run(frames(1, 2), window=9, look_back_every=1)
    assert [step["label"] for step in report["steps"]] == ["admit", "admit", "reorder"]
    assert report["notes"][0] == "The window (9) is larger than the number of frames (2)."
    assert "No look-back" in report["notes"][1]


def test_a_window_of_one_has_no_reorder(frames: Frames, run: Run) -> None:
    report = run(frames(1, 2), window=1, look_back_every=2)
    assert [step["window"] for step in report["steps"]] == [[0], [1], [0]]
    assert report["preparation"] is None
    assert report["totals"]["kamera"]["num_vision_runs"] == 2


def test_bad_images_are_skipped_and_counted_when_asked(frames: Frames, run: Run) -> None:
    folder = frames(1, 2)
    whole = (folder / "screenshot0.png").read_bytes()
    (folder / "screenshot00.png").write_bytes(whole[:200])
    with pytest.raises(ConfigError, match=r"screenshot00\.png.*--skip-bad"):
        run(folder)
    report = run(folder, skip_bad=True)
    assert report["source"]["skipped"] == ["screenshot00.png"]
    assert report["source"]["frames"] == ["screenshot0.png", "screenshot1.png"]
    assert report["notes"][0] == "Skipped 1 unreadable: screenshot00.png."


def test_a_kept_store_spares_the_next_run_every_forward(
    frames: Frames, run: Run, tmp_path: Path
) -> None:
    source, store = frames(1, 2), tmp_path / "store"
    first = run(source, store=store, look_back_every=0, reorder=False)
    again = run(source, store=store, look_back_every=0, reorder=False)
    assert first["store"]["num_entries_before"] == 0
    assert again["store"]["num_entries_before"] == first["store"]["stats"]["num_entries"] > 0
    assert again["totals"]["kamera"]["num_prefilled"] == 0
    assert again["totals"]["kamera"]["num_vision_runs"] == 0
    assert again["store"]["misses"] == {}
    assert any("held" in note for note in again["notes"])


def test_another_models_store_is_a_miss_and_the_run_goes_on(
    frames: Frames, run: Run, tmp_path: Path, other_tiny: Path
) -> None:
    source, store = frames(1, 2), tmp_path / "store"
    run(source, store=store, model=other_tiny)
    report = run(source, store=store)
    assert report["store"]["num_entries_before"] > 0
    assert report["store"]["misses"]["vision.unknown"] == 2
    assert report["store"]["stats"]["misses"]["unknown"] >= 2
    assert report["totals"]["kamera"]["num_vision_runs"] == 2


def test_progress_counts_every_step(frames: Frames, tiny: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    settings = ReplaySettings(frames(1, 2), model=tiny, out=tmp_path / "out")
    replay(settings, progress=lambda *now: told.append(now))
    assert told == [
        ("warm up", 0, 3),
        ("admit 0", 0, 3),
        ("admit 1", 1, 3),
        ("prepare the reorder", 2, 3),
        ("reorder", 2, 3),
        ("done", 3, 3),
    ]


def test_logits_that_are_not_finite_are_an_error(engine: HFEngine) -> None:
    class Broken(Arm):
        name = "broken"

        def serve(self, request: ArmRequest) -> Served:
            return Served(torch.full((4,), float("nan")), 0, 0, 1.0)

    with pytest.raises(KameraError, match="'broken' gave logits that aren't finite"):
        serve([Broken()], ArmRequest(None, (), engine.frame("?")[1]))


DATA = os.environ.get("KAMERA_DATA")


@pytest.mark.skipif(DATA is None, reason="KAMERA_DATA names no folder of real screenshots")
def test_real_screenshots_are_seen_once_each(run: Run) -> None:
    folders = sorted(Path(str(DATA)).glob("webvoyager/task*"))
    assert folders, "expected webvoyager/task*/screenshot*.png in the folder KAMERA_DATA"
    report = run(folders[0], max_frames=4, window=2, rank=8)
    assert report["source"]["frames"] == [f"screenshot{i}.png" for i in range(1, 5)]
    assert report["totals"]["kamera"]["num_vision_runs"] == report["source"]["num_distinct"]
    for step in report["steps"]:
        assert step["arms"]["kamera"]["num_prefilled"] == num_tokens_not_held(step)
