"""Slides and recalls: survivors keep their KV, what comes back is formed again."""

from typing import Any

import pytest
import torch
from session_reference import (
    EXACT,
    QUESTION,
    TOKENS,
    admit_all,
    costs,
    error,
    kl,
    points,
    shown,
    truth,
)

from kamera.engines.hf import HFEngine
from kamera.errors import ChunkNotFoundError
from kamera.planner import OperatingPoint
from kamera.session.resident import Cached


def test_a_slide_prefills_nothing_held_and_never_sees_again(
    open_session: Any, picture: Any
) -> None:
    session = open_session()
    admit_all(session, picture, "abcd")
    runs = session.engine.num_vision_runs
    outcome = session.slide()
    assert outcome.evicted == ("a",)
    assert costs(outcome) == (0, 0)
    assert outcome.num_formed == 0
    assert points(outcome) == {
        "prefix": "leading", "b": "exact", "c": "survivor", "d": "survivor"
    }  # fmt: skip
    assert outcome["b"].start == session.prefix.extent
    assert session.engine.num_vision_runs == runs
    assert session.slide(2).evicted == ("b", "c")
    assert session.engine.num_vision_runs == runs


def test_a_slide_down_to_one_is_exact(open_session: Any, picture: Any) -> None:
    """The last one stands behind the prefix alone, for which its patch was formed ahead."""
    session = open_session()
    admit_all(session, picture, "abc")
    outcome = session.slide(2)
    assert points(outcome) == {"prefix": "leading", "c": "exact"}
    assert outcome["c"].patch_rank == TOKENS["c"]
    assert outcome["c"].patch_bytes > 0
    assert error(session) <= EXACT


def test_a_patch_that_keeps_nothing_is_called_blind(open_session: Any, picture: Any) -> None:
    """So few bytes hold no direction: what is served is the canonical, moved."""
    session = open_session(rank=None, patch="bytes 0.0001%")
    admit_all(session, picture, "abc")
    for outcome in (session.slide(2), session.ask(QUESTION)):
        served = outcome["c"]
        assert (served.patch_rank, served.patch_bytes, served.exact) == (0, 0, False)
        assert "keeps nothing: as blind reuse" in served.reason
        assert "keeps nothing" not in outcome["prefix"].reason
    chunk = session._chunks[session.window.slots[0].chunk]
    canonical = session.library.canonical(chunk)
    moved = canonical.at(chunk.layout.at(served.start), session.engine.spec)
    assert session.placed()[1].tensors["k"].equal(moved.tensors["k"])


def test_a_patch_that_keeps_something_is_not_called_blind(open_session: Any, picture: Any) -> None:
    session = open_session(rank=1)
    admit_all(session, picture, "abc")
    assert "keeps nothing" not in session.slide(2)["c"].reason


def test_without_form_leading_the_new_head_survives_instead(
    open_session: Any, picture: Any
) -> None:
    session = open_session(form_leading=False)
    admit_all(session, picture, "ab")
    assert points(session.slide())["b"] == "survivor"
    assert error(session) > 1e-4, "a survivor still holds what has left"


def test_survivors_hold_exactly_their_old_conditioned_kv(open_session: Any, picture: Any) -> None:
    """Relocated, nothing else: the same values, keys turned by the shift."""
    session = open_session()
    admit_all(session, picture, "abc")
    chunk = session._chunks[session.window.slots[2].chunk]
    before, old_start = session.placed()[3], session.ask(QUESTION)["c"].start
    outcome = session.slide()
    assert outcome["c"].point is OperatingPoint.SURVIVOR
    after = session.placed()[2]
    assert after.tensors["v"].equal(before.tensors["v"])
    spec, start = session.engine.spec, outcome["c"].start
    moved = before.to_canonical(chunk.layout.at(old_start), spec).at(chunk.layout.at(start), spec)
    assert after.tensors["k"].equal(moved.tensors["k"])
    assert not after.tensors["k"].equal(before.tensors["k"])


@pytest.mark.parametrize("at", [None, 0, 1])
def test_a_recalled_chunk_is_exact_and_is_not_seen_again(
    open_session: Any, picture: Any, at: int | None
) -> None:
    session = open_session(capacity=3)
    admit_all(session, picture, "abc")
    session.slide()
    runs = session.engine.num_vision_runs
    outcome = session.recall("a", at=at)
    assert session.engine.num_vision_runs == runs
    assert outcome["a"].num_vision_runs == 0
    assert outcome["a"].point is (OperatingPoint.EXACT if at == 0 else OperatingPoint.RECALL)
    assert outcome["a"].num_prefilled == (0 if at == 0 else TOKENS["a"])


def test_recall_into_an_exact_window_is_exact(open_session: Any, picture: Any) -> None:
    session = open_session(capacity=2)
    admit_all(session, picture, "ab")
    session.slide()
    outcome = session.recall("a")
    assert points(outcome)["a"] == "recall"
    assert error(session) <= EXACT
    session.slide()
    session.admit(shown(picture, "c"), name="c")
    assert error(session) <= EXACT
    session.recall("b", at=0)
    assert error(session) <= EXACT


def test_a_thousand_moves_do_not_drift(open_session: Any, picture: Any) -> None:
    """Always placed from what is held: home again after any number of moves, bit for bit."""
    session = open_session()
    admit_all(session, picture, "ab")
    name, chunk = "b", session._chunks[session.window.slots[1].chunk]
    resident, spec = session._residents[name], session.engine.spec
    assert isinstance(resident.source, Cached)
    home = session.placed()[2]
    for move in range(1000):
        resident.source.at(chunk.layout.at(7 * move + 1), spec)
    assert resident.source.at(resident.source.positions, spec).tensors["k"].equal(home.tensors["k"])
    far = resident.source.at(chunk.layout.at(20_000), spec)
    direct = home.to_canonical(resident.source.positions, spec).at(chunk.layout.at(20_000), spec)
    assert far.tensors["k"].equal(direct.tensors["k"])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_chunk_that_moves_to_and_fro_does_not_drift(
    open_session: Any, bf16_engine: HFEngine, engine: HFEngine, picture: Any, dtype: str
) -> None:
    """One chunk recalled to the front and slid out again, so that another moves to and fro."""
    session = open_session(
        on=engine if dtype == "float32" else bf16_engine, form_leading=False, rank=4
    )
    admit_all(session, picture, "abc")
    session.slide()
    first = [kv.tensors["k"].clone() for kv in session.placed()]
    for _ in range(10):
        session.recall("a", at=0)
        session.slide()
    again = [kv.tensors["k"] for kv in session.placed()]
    # b is held behind [prefix, a] either way: its bytes may not change
    assert again[1].equal(first[1])


def test_a_session_that_must_forget_forms_what_would_survive(
    open_session: Any, picture: Any
) -> None:
    session = open_session(keep_survivors=False, rank=1000)
    admit_all(session, picture, "abc")
    slid = session.slide()
    assert points(slid) == {"prefix": "leading", "b": "exact", "c": "form"}
    assert slid["c"].num_prefilled == slid["c"].num_tokens
    assert error(session) <= EXACT


def test_bf16_windows_stay_close_to_re_prefill(
    open_session: Any, bf16_engine: HFEngine, picture: Any
) -> None:
    session = open_session(on=bf16_engine)
    admit_all(session, picture, "ab")
    assert points(session.slide())["b"] == "exact"
    assert session.placed()[1].dtype == torch.bfloat16
    wrong = kl(truth(session), truth(session, "another?"))
    assert error(session) < 0.1 * wrong


def test_a_long_session_keeps_no_more_chunks_than_can_come_back(
    open_session: Any, picture: Any
) -> None:
    session = open_session(capacity=2, max_evicted=1)
    admit_all(session, picture, "abcd")
    held = {slot.chunk for slot in (*session.window.slots, *session.window.evicted)}
    assert set(session._chunks) == {session.prefix.digest, *held}
    assert [slot.name for slot in session.window.evicted] == ["b"]
    with pytest.raises(ChunkNotFoundError, match="'a'"):
        session.recall("a")
    assert points(session.recall("b"))["b"] in ("recall", "exact", "served")
