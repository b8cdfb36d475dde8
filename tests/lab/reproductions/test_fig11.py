"""Figure 11 on two items of nano-gqa; timed on the shortest window alone."""

from dataclasses import replace
from typing import Any

import pytest

from kamera.arms import Workbench
from kamera.lab.evaluation import request_of
from kamera.lab.reproductions import fig11
from kamera.lab.reproductions.first_token import FirstToken, first_token, form_all, reuse
from kamera.lab.reproductions.subject import Subject


@pytest.fixture(scope="module")
def timed(subject: Subject) -> FirstToken:
    return fig11.timed_window(subject, fig11.LENGTHS[0])


@pytest.fixture(scope="module")
def model(subject: Subject, timed: FirstToken) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fig11, "timed_window", lambda subject, length: timed)
        return fig11.run(subject)


def test_every_claim_has_its_figure(model: dict[str, Any]) -> None:
    for claim in fig11.REPRODUCTION.claims:
        if "break-even" not in claim.key:  # there is none where a reuse isn't faster
            assert claim.verdict(model["figures"]) != "not measured", claim.label


def test_a_window_has_as_many_tokens_as_were_asked_for(timed: FirstToken) -> None:
    """Frames of 66 tokens behind a prefix: four of them are the fewest that have 256."""
    assert 4 * 66 <= timed.num_tokens < 5 * 66
    assert min(timed.prefill_s, timed.vision_s, timed.reuse_s, timed.form_s) > 0


def test_break_even_is_where_two_lines_meet() -> None:
    timed = FirstToken(256, 0.5, 0.1, 0.1, 3.6, 5.0)
    assert timed.break_even == pytest.approx(9.0)
    assert timed.form_s + 9 * timed.reuse_s == pytest.approx(9 * timed.prefill_s)
    assert replace(timed, reuse_s=0.6).break_even is None


def test_what_is_timed_is_the_patched_arm(subject: Subject) -> None:
    """At full rank its logits are re-prefill's, so that no step was left out of the clock."""
    item = subject.items("binding", 1)[0]
    bench, request = Workbench(subject.engine), request_of(subject.engine, item)
    found = first_token(bench, request, rank=128)
    assert found.num_tokens == sum(chunk.num_tokens for chunk in request.cached)
    reference = bench.full([*request.cached, request.tail]).logits
    logits = reuse(bench, request, form_all(bench, request.cached, 128)).logits
    assert float((logits - reference).abs().max()) < 1e-3 * float(reference.abs().max())


def test_sharing_and_intensity_by_hand(subject: Subject, model: dict[str, Any]) -> None:
    figures, tallies = model["figures"], subject.tallies("binding")
    kept = tallies["patch 16"].num_bytes / tallies["re-prefill"].num_bytes
    assert figures["sharing, rank 16, 64"]["value"] == pytest.approx(64 / (1 + 64 * kept))
    # 4 query heads over 2 KV heads in float32: 2 · 4 operations for 2 · 4 bytes
    assert figures["decode: operations a byte"]["value"] == 1.0
    smallest = model["smallest"]
    assert sum(tallies[f"patch {smallest}"].correct) >= sum(tallies["re-prefill"].correct)


def test_charts_have_the_papers_lines(model: dict[str, Any]) -> None:
    found = fig11.charts({"nano-gqa": model})
    assert found[0].title == "Bytes and accuracy"
    assert list(found[1].series[-1].y) == [1.8, 3.1, 8.0, 29.3]
