"""Benchmarks under arms: the packaged nano-gqa on its own frames, in the files that benchmarks come in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_files import BLUE, RED, png, write_film, write_lines, write_parquet
from PIL import Image

import kamera
from kamera.arms import Arm, Blind, Kamera, Patched, PrefixCache, Reprefill, SharedBasis, Workbench
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.lab.benchmarks import MuirBench, MuSiQue, SlideVQA, VideoMME
from kamera.lab.benchmarks.evaluation import Limits, evaluate_benchmark
from kamera.lab.benchmarks.window import Shown, request_of
from kamera.lab.tasks import TASKS

BARE = Shown(instruction="")
"""The nano checkpoints were trained on bare questions."""


@pytest.fixture(scope="module")
def session() -> Iterator[kamera.Session]:
    with kamera.Session.open(kamera.packaged_model()) as opened:
        yield opened


@pytest.fixture(scope="module")
def engine(session: kamera.Session) -> HFEngine:
    assert isinstance(session.engine, HFEngine)
    return session.engine


def few(bench: Workbench) -> list[Arm]:
    return [Reprefill(bench.engine), PrefixCache(bench.engine), Blind(bench), Patched(bench, 16)]


def binding_rows(count: int) -> list[dict[str, Any]]:
    """Binding items as two-page decks: a legend, then a shape."""
    return [
        {
            "deck_name": f"deck {number}",
            "question": item.question,
            "answer": item.answer,
            "page_1": png(item.frames[0].image),
            "page_2": png(item.frames[1].image),
        }
        for number, item in enumerate(TASKS["binding"].items(count, seed=7))
    ]


def test_two_page_decks_bind_and_the_patch_gives_back_what_blind_loses(
    tmp_path: Path, session: kamera.Session, engine: HFEngine
) -> None:
    rows = binding_rows(8)
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", rows)
    seen: list[tuple[str, int, int]] = []
    report = evaluate_benchmark(
        engine,
        SlideVQA(tmp_path, pages=(1, 2)),
        Limits(8, max_new_tokens=4),
        make=lambda bench: [*few(bench), Kamera(session)],
        shown=BARE,
        progress=lambda *at: seen.append(at),
    )
    assert seen == [("slidevqa", n + 1, 8) for n in range(8)]
    assert (report["n"], report["num_left_out"]) == (8, 0)
    arms = report["arms"]
    assert arms["re-prefill"]["em"] >= 0.75
    assert arms["blind"]["score"] <= 0.5 * arms["re-prefill"]["score"]
    assert arms["blind"]["eta"] == 0.0
    for exact in ("re-prefill", "prefix cache"):
        assert arms[exact]["agreement"] == 1.0
    for close in ("patch 16", "kamera"):
        assert arms[close]["score"] == arms["re-prefill"]["score"]
        assert arms[close]["agreement"] == arms[close]["flip_recover"] == 1.0
        assert arms[close]["eta"] >= 0.97
        assert arms[close]["num_prefilled"] == 0
    assert arms["re-prefill"]["num_prefilled"] > 0
    assert arms["re-prefill"]["score_interval"]["n"] == 8
    assert [item["answers"] for item in report["items"]] == [[row["answer"]] for row in rows]


def test_an_open_answer_is_what_the_engine_generates(tmp_path: Path, engine: HFEngine) -> None:
    """Asking an arm again for every token is greedy decoding: the same text as one generation."""
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", binding_rows(2))
    benchmark = SlideVQA(tmp_path, pages=(1, 2))
    shown = Shown(instruction="Say more than one word about it.")
    report = evaluate_benchmark(
        engine,
        benchmark,
        Limits(2, max_new_tokens=5),
        make=lambda bench: [Reprefill(bench.engine)],
        shown=shown,
    )
    for item, told in zip(benchmark.items(), report["items"], strict=True):
        request = request_of(engine, item, shown)
        vision = {c.media.digest: engine.see(c) for c in request.cached if c.media is not None}
        filled = engine.prefill(request.cached, vision, start=0)
        wanted = engine.generate(
            request.tail, start=request.tail_start, context=filled.kv, max_new_tokens=5
        )
        assert told["responses"] == {"re-prefill": wanted.text.strip()}
    arm = report["arms"]["re-prefill"]
    assert arm["eta"] is None  # no blind reuse among the arms
    assert arm["agreement"] == 1.0


def test_a_choice_is_answered_by_the_likeliest_letter(tmp_path: Path, engine: HFEngine) -> None:
    row = {
        "idx": "1",
        "task": "Counting",
        "image_list": [png(Image.new("RGB", (56, 56), RED)), png(Image.new("RGB", (56, 56), BLUE))],
        "question": "which <image> or <image>?",
        "options": ["red", "blue"],
        "answer": "A",
    }
    write_parquet(tmp_path / "data" / "test-0.parquet", [row, {**row, "idx": "2", "answer": "B"}])
    report = evaluate_benchmark(engine, MuirBench(tmp_path), Limits(2), make=few)
    for arm in report["arms"].values():  # the rows are the same but for the answer
        assert arm["score"] == 0.5
        assert arm["by_category"]["Counting"] == {"score": 0.5, "n": 2}
    one, two = report["items"]
    assert one["responses"] == two["responses"]
    assert set(one["responses"].values()) <= {"A", "B"}


def test_frames_of_a_film_are_chunks(tmp_path: Path, engine: HFEngine) -> None:
    row = {
        "videoID": "clip",
        "duration": "short",
        "question": "which color?",
        "options": ["A. red", "B. blue"],
        "answer": "A",
    }
    write_parquet(tmp_path / "videomme" / "test-0.parquet", [row])
    write_film(tmp_path / "data" / "clip.mp4", [RED] * 4 + [BLUE] * 4)
    benchmark = VideoMME(tmp_path, num_frames=3)
    (item,) = benchmark.items()
    request = request_of(engine, item, Shown())
    assert [chunk.key.kind for chunk in request.chunks] == ["image"] * 3
    report = evaluate_benchmark(engine, benchmark, Limits(1), make=few)
    assert report["n"] == 1
    assert report["arms"]["re-prefill"]["agreement"] == 1.0


def test_a_film_can_be_one_video_chunk(tmp_path: Path, engine: HFEngine) -> None:
    row = {
        "videoID": "clip",
        "duration": "short",
        "question": "which color?",
        "options": ["A. red", "B. blue"],
        "answer": "A",
    }
    write_parquet(tmp_path / "videomme" / "test-0.parquet", [row])
    write_film(tmp_path / "data" / "clip.mp4", [RED] * 4 + [BLUE] * 4)
    (item,) = VideoMME(tmp_path, num_frames=4).items()
    request = request_of(engine, item, Shown(films_as_video=True))
    (chunk,) = request.chunks
    assert chunk.key.kind == "video"
    assert np.array_equal(chunk.media.inputs["frame_seconds"], [0.0, 0.5, 1.0, 1.5])


PARAGRAPHS = {
    "id": "2hop__1_2",
    "paragraphs": [
        {"idx": 0, "title": "red", "paragraph_text": "red is 1.", "is_supporting": True},
        {"idx": 1, "title": "blue", "paragraph_text": "blue is 2.", "is_supporting": True},
    ],
    "question": "which digit goes with red?",
    "answer": "1",
}


def test_paragraphs_are_text_chunks_and_long_windows_are_left_out(
    tmp_path: Path, engine: HFEngine
) -> None:
    long = {**PARAGRAPHS, "id": "3hop1__3", "paragraphs": PARAGRAPHS["paragraphs"] * 9}  # type: ignore[operator]
    write_lines(tmp_path / "musique_ans_v1.0_dev.jsonl", [PARAGRAPHS, long])
    benchmark = MuSiQue(tmp_path)
    (first, second) = (request_of(engine, item, BARE) for item in benchmark.items())
    assert [chunk.key.kind for chunk in first.chunks] == ["text", "text"]
    most = sum(chunk.num_tokens for chunk in (*first.cached, first.tail))
    assert sum(chunk.num_tokens for chunk in second.cached) > most
    limits = Limits(2, max_new_tokens=1, max_tokens=most)
    report = evaluate_benchmark(engine, benchmark, limits, make=few, shown=BARE)
    assert (report["n"], report["num_left_out"]) == (1, 1)
    assert list(report["arms"]["blind"]["by_category"]) == ["2hop"]
    with pytest.raises(ConfigError, match="No item of musique"):
        evaluate_benchmark(engine, benchmark, Limits(2, max_tokens=1), make=few)


def test_what_teaches_an_arm_is_not_answered(tmp_path: Path, engine: HFEngine) -> None:
    rows = binding_rows(4)
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", rows)
    report = evaluate_benchmark(
        engine,
        SlideVQA(tmp_path, pages=(1, 2)),
        Limits(2, max_new_tokens=1, num_learned=2),
        make=lambda bench: [Reprefill(bench.engine), Blind(bench), SharedBasis(bench, 16)],
        shown=BARE,
    )
    assert [item["id"] for item in report["items"]] == ["deck 2", "deck 3"]
    assert report["arms"]["shared basis 16"]["eta"] > 0.5


def test_re_prefill_must_come_first(tmp_path: Path, engine: HFEngine) -> None:
    with pytest.raises(ConfigError, match="Expected re-prefill as the first arm, got"):
        evaluate_benchmark(engine, MuSiQue(tmp_path), Limits(1), make=lambda b: [Blind(b)])


@pytest.mark.parametrize("name", ["num_items", "max_new_tokens", "max_tokens"])
def test_a_limit_below_one_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid {name}: expected at least 1, got 0"):
        Limits(**{"num_items": 1, name: 0})
    with pytest.raises(ConfigError, match="Invalid num_learned: expected at least 0, got -1"):
        Limits(1, num_learned=-1)
