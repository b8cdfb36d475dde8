"""Reorders: formed once, or served from an orbit patch that was prepared."""

import weakref
from typing import Any

import pytest
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

from kamera.arms import Workbench
from kamera.patch import RunningMean, mean_deficit
from kamera.session import Session


def test_reorders_that_were_formed_once_run_no_forward_again(
    open_session: Any, picture: Any
) -> None:
    session = open_session()
    admit_all(session, picture, "abc")
    there = session.reorder(["c", "a", "b"])
    assert points(there) == {"prefix": "leading", "c": "exact", "a": "form", "b": "form"}
    assert costs(there) == (TOKENS["a"] + TOKENS["b"], 0)
    assert error(session) <= EXACT
    back = session.reorder(["a", "b", "c"])
    assert points(back) == {"prefix": "leading", "a": "exact", "b": "exact", "c": "exact"}
    assert costs(back) == (0, 0)
    assert error(session) <= EXACT
    again = session.reorder(["c", "a", "b"])
    assert points(again) == {"prefix": "leading", "c": "exact", "a": "served", "b": "served"}
    assert [again[name].exact for name in ("prefix", "c", "a", "b")] == [True, False, False, False]
    assert costs(again) == (0, 0)
    assert error(session) <= EXACT


def test_prepared_reorders_run_no_forward(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, "abc")
    assert session.prepare_reorders() == 6
    assert session.prepare_reorders() == 0, "every patch is there"
    outcome = session.reorder(["c", "b", "a"])
    assert points(outcome) == {"prefix": "leading", "c": "exact", "b": "orbit", "a": "orbit"}
    assert costs(outcome) == (0, 0)
    assert outcome.num_formed == 0
    mean = error(session)
    assert mean > 1e-5, "a mean over orderings isn't exact; if it is, this test compares nothing"
    blind = open_session(form_leading=False)
    admit_all(blind, picture, "abc")
    assert mean < _blind_error(session, blind), "an orbit patch is better than none"


def _blind_error(session: Session, blind: Session) -> float:
    """The same window and question, every chunk's canonical without a patch."""
    from kamera.channels import concat

    placed, start = [], 0
    for digest in session._order(session.window):
        chunk = session._chunks[digest]
        stored = session._former.canonical(chunk)
        placed.append(stored.at(chunk.layout.at(start), session.engine.spec))
        start += chunk.extent
    _, tail = session.engine.frame(QUESTION)
    out = session.engine.prefill([tail], {}, start=start, context=concat(placed))
    return kl(truth(session), out.logits)


def test_the_orbit_of_one_is_its_exact_patch(open_session: Any, picture: Any) -> None:
    """Behind [prefix, x] there is one ordering, so the mean over orderings is exact."""
    session = open_session()
    admit_all(session, picture, "ab")
    session.prepare_reorders()
    outcome = session.reorder(["b", "a"])
    assert points(outcome) == {"prefix": "leading", "b": "exact", "a": "orbit"}
    assert error(session) <= EXACT


def test_the_deficits_of_many_orderings_are_not_held_together(
    open_session: Any, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 24 orderings of four chunks each: one at a time, and fewer sums than there are patches."""
    session = open_session()
    admit_all(session, picture, "abcd")
    held: list[weakref.ref[Any]] = []
    most = {"deltas": 0, "sums": 0}
    delta = type(session._former).delta
    sums: weakref.WeakSet[Any] = weakref.WeakSet()

    def watched(*given: Any) -> Any:
        most["deltas"] = max(most["deltas"], sum(ref() is not None for ref in held))
        most["sums"] = max(most["sums"], len(sums))
        found = delta(*given)
        held.extend(weakref.ref(tensor) for tensor in found.values())
        return found

    class Watched(RunningMean):
        def __init__(self) -> None:
            super().__init__()
            sums.add(self)

    monkeypatch.setattr(type(session._former), "delta", watched)
    monkeypatch.setattr("kamera.session.former.RunningMean", Watched)
    assert session.prepare_reorders() == 24
    num_patches = 4 * (2**3 - 1)
    assert len(held) == 2 * 24 * 3
    assert most["deltas"] <= 2, "K and V of one chunk in one ordering"
    assert 1 < most["sums"] < num_patches
    assert session.prepare_reorders() == 0, "every patch is there"


def test_an_orbit_patch_is_of_the_mean_over_its_orderings(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, "abc")
    session.prepare_reorders()
    chunks = {slot.name: session._chunks[slot.chunk] for slot in session.window.slots}
    a, b, c, prefix = (*chunks.values(), session.prefix)
    deltas = [Workbench(session.engine).delta([prefix, *pair, c], 3) for pair in ((a, b), (b, a))]
    kv_bytes = session.library.canonical(c).num_bytes
    wanted = session.library.profile.form(mean_deficit(deltas), "any", kv_bytes, "orbit")
    [record] = [
        record
        for record in session.library.patches(c, [prefix.digest, b.digest, a.digest])
        if record.kind == "orbit"
    ]
    patch = session.library.patch(c, record)
    for name, factors in patch.factors.items():
        assert factors.u.equal(wanted.factors[name].u)
        assert factors.vt.equal(wanted.factors[name].vt)


def test_orderings_above_the_limit_are_sampled(open_session: Any, picture: Any) -> None:
    session = open_session(max_orderings=4)
    admit_all(session, picture, "abc")
    assert session.prepare_reorders() == 4


def test_an_orbit_patch_keeps_its_label_while_it_is_held(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, "abc")
    session.prepare_reorders()
    session.reorder(["c", "b", "a"])
    assert points(session.admit(shown(picture, "d"), name="d"))["a"] == "orbit"
