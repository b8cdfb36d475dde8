"""Admitting and showing chunks: what it costs, and that the window is exact."""

from dataclasses import replace
from typing import Any

import pytest
from session_reference import (
    EXACT,
    TOKENS,
    admit_all,
    costs,
    error,
    points,
    shown,
)

from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.planner import OperatingPoint
from kamera.store import MemoryStore


def test_the_pictures_have_the_grids_that_the_tests_count_with(
    engine: HFEngine, picture: Any
) -> None:
    for name, num_tokens in TOKENS.items():
        assert engine.image_chunk(shown(picture, name)).num_tokens == num_tokens


def test_admitting_prefills_the_new_chunk_alone(open_session: Any, picture: Any) -> None:
    session = open_session()
    outcomes = admit_all(session, picture, "abc")
    prefix = session.prefix.num_tokens
    assert [costs(o) for o in outcomes] == [(prefix + 8, 1), (14, 1), (12, 1)]
    assert points(outcomes[2]) == {
        "prefix": "leading", "a": "leading", "b": "leading", "c": "form"
    }  # fmt: skip
    starts = [outcomes[2][name].start for name in ("prefix", "a", "b", "c")]
    assert starts == [0, prefix, prefix + 2 + 3, prefix + 2 + 3 + 2 + 4]
    assert error(session) <= EXACT


def test_showing_a_window_again_is_free(open_session: Any, picture: Any) -> None:
    session = open_session()
    window = [shown(picture, name) for name in "abc"]
    first = session.show(window)
    assert costs(first) == (session.prefix.num_tokens + 8 + 14 + 12, 3)
    assert error(session) <= EXACT
    again = session.show(window)
    assert costs(again) == (0, 0)
    assert again.evicted == ()
    emptied = session.show([])
    assert len(emptied.evicted) == 3
    back = session.show(window)
    assert costs(back) == (0, 0)
    assert [c.point.value for c in back.chunks] == ["leading", "exact", "exact", "exact"]
    assert error(session) <= EXACT


def test_a_request_may_show_one_image_twice(open_session: Any, picture: Any) -> None:
    session, image = open_session(), shown(picture, "a")
    outcome = session.show([image, shown(picture, "b"), image])
    assert len({chunk.name for chunk in outcome.chunks}) == 4
    assert outcome.num_vision_runs == 2
    assert error(session) <= EXACT
    assert costs(session.show([image, shown(picture, "b"), image])) == (0, 0)


def test_one_image_under_two_names(open_session: Any, picture: Any) -> None:
    session = open_session(capacity=3)
    session.admit(shown(picture, "a"), name="first")
    again = session.admit(shown(picture, "a"), name="second")
    assert again["second"].num_vision_runs == 0
    assert again["second"].point is OperatingPoint.FORM
    assert error(session) <= EXACT
    session.slide()
    session.recall("first")
    assert error(session) <= EXACT
    assert costs(session.reorder(["first", "second"])) == (0, 0)
    assert error(session) <= EXACT


def test_a_window_of_one(open_session: Any, picture: Any) -> None:
    session = open_session(capacity=1)
    for name in "abc":
        session.admit(shown(picture, name), name=name)
        assert session.window.names == (name,)
        assert error(session) <= EXACT
    outcome = session.recall("a")
    assert outcome.evicted == ("c",)
    assert points(outcome) == {"prefix": "leading", "a": "exact"}
    assert error(session) <= EXACT


def test_chunks_of_another_model_or_tenant_are_refused(
    open_session: Any, bf16_engine: HFEngine, engine: HFEngine, picture: Any
) -> None:
    session = open_session(tenant="us")
    for theirs in (
        bf16_engine.image_chunk(shown(picture, "a"), tenant="us"),
        engine.image_chunk(shown(picture, "a"), tenant="them"),
    ):
        with pytest.raises(ConfigError, match="expected one"):
            session.show([theirs])
    session.show([engine.image_chunk(shown(picture, "a"), tenant="us")])


def test_a_low_rank_is_closer_than_blind_and_labelled(open_session: Any, picture: Any) -> None:
    session = open_session(rank=4)
    admit_all(session, picture, "abc")
    session.show([])
    outcome = session.show([shown(picture, n) for n in "abc"])
    assert {c.patch_rank for c in outcome.chunks[1:]} == {4}
    full = open_session()
    admit_all(full, picture, "abc")
    full.show([])
    more = full.show([shown(picture, n) for n in "abc"])
    assert more.chunks[1].patch_bytes > outcome.chunks[1].patch_bytes
    assert error(full) <= EXACT < error(session)


def test_a_patch_formed_behind_a_stale_context_is_never_served_as_exact(
    open_session: Any, picture: Any
) -> None:
    store = MemoryStore(1 << 30)
    first = open_session(store=store, capacity=3)
    admit_all(first, picture, "abcd")  # d is prefilled behind [b, c], c still conditioned on a
    second = open_session(store=store)
    outcome = second.show([shown(picture, name) for name in "bcd"])
    assert "survivor" not in points(outcome).values()
    assert error(second) <= EXACT


def test_outcomes_add_up_and_explain(open_session: Any, picture: Any) -> None:
    session = open_session()
    outcome = admit_all(session, picture, "ab")[1]
    lines = outcome.explain().splitlines()
    assert len(lines) == 3
    assert lines[2].startswith(f"b at {outcome['b'].start}: form (")
    assert "prefilled 14 of 14 tokens" in lines[2]
    slid = session.slide()
    assert slid.explain().splitlines()[0] == "slide: evicted a"
    with pytest.raises(KeyError):
        outcome["nobody"]
    assert replace(outcome, chunks=()).num_prefilled == 0


def test_tenants_share_no_chunk(open_session: Any, picture: Any) -> None:
    store = MemoryStore(1 << 30)
    first = open_session(store=store, tenant="a")
    admit_all(first, picture, "a")
    other = open_session(store=store, tenant="b")
    prefix = other.prefix.num_tokens
    assert costs(admit_all(other, picture, "a")[0]) == (prefix + 8, 1)
    same = open_session(store=store, tenant="a")
    assert costs(admit_all(same, picture, "a")[0]) == (0, 0)


def test_a_text_span_is_admitted_as_a_chunk_and_moves_like_an_image(
    open_session: Any, picture: Any, engine: HFEngine
) -> None:
    note = engine.text_chunk("A frame, a page, an image and a text are chunks of the window.")
    session = open_session(capacity=2)
    session.admit(note, name="note")
    session.admit(shown(picture, "a"), name="a")
    session.reorder(["a", "note"])
    assert error(session) < EXACT
    with pytest.raises(ConfigError, match="tenant"):
        session.admit(engine.text_chunk("a note", tenant="them"))
