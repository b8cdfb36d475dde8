"""Deferred forming: no verb waits for it, nothing is lost, and windows are served as if it came at once."""

import logging
from typing import Any

import pytest
from session_reference import EXACT, admit_all, ask, costs, error, kl, points, shown

from kamera.errors import ConfigError
from kamera.session import Outcome, Session
from kamera.store import MemoryStore

EXACT_KL = 1e-9
"""As between two forwards of one window that differ in rounding alone (see test_session_random)."""


def deferred(open_session: Any, **settings: Any) -> Session:
    session: Session = open_session(forming="deferred", **settings)
    return session


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch, engine: Any) -> list[int]:
    """Tokens of each forward of the engine, in order."""
    ran: list[int] = []
    prefill = type(engine).prefill

    def counted(self: Any, chunks: Any, *args: Any, **kwargs: Any) -> Any:
        ran.append(sum(chunk.num_tokens for chunk in chunks))
        return prefill(self, chunks, *args, **kwargs)

    monkeypatch.setattr(type(engine), "prefill", counted)
    return ran


def test_a_verb_runs_the_forwards_of_the_request_alone(
    open_session: Any, picture: Any, forwards: list[int]
) -> None:
    session = deferred(open_session)
    session.admit(shown(picture, "a"))
    outcome = session.admit(shown(picture, "b"))
    assert forwards == [session.prefix.num_tokens, 8, 14]  # type: ignore[union-attr]
    assert (outcome.num_formed, outcome.form_s) == (0, 0.0)
    assert session.num_pending == 3
    assert session.form_pending(2) == 2
    assert len(forwards) == 4  # the prefix is its own canonical; "a" ran alone
    assert (session.form_pending(), session.num_pending) == (1, 0)
    assert session.form_pending() == 0


@pytest.mark.parametrize("count", [-1, -3])
def test_a_count_below_zero_is_refused_and_forms_nothing(
    open_session: Any, picture: Any, count: int
) -> None:
    session = deferred(open_session)
    admit_all(session, picture, "ab")
    with pytest.raises(ConfigError, match=f"expected a whole number .* got {count}"):
        session.form_pending(count)
    assert session.num_pending == 3
    assert session.form_pending(0) == 0


def verbs(session: Session, picture: Any) -> list[Outcome]:
    """Slides, a survivor, a recall and a reorder."""
    done = admit_all(session, picture, "abc")
    done.append(session.slide())
    done.append(session.admit(shown(picture, "d"), name="d"))
    done.append(session.recall("a"))
    done.append(session.slide(2))
    done.append(session.reorder(list(reversed(session.window.names))))
    return done


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("rank", [2, 10**6])
def test_windows_are_served_as_when_forming_comes_at_once(
    open_session: Any, picture: Any, rank: int, idle: bool
) -> None:
    plain, later = open_session(rank=rank), deferred(open_session, rank=rank)
    wanted = verbs(plain, picture)
    if idle:
        carry_out = later._carry_out

        def then_idle(*args: Any) -> Outcome:
            outcome = carry_out(*args)
            later.form_pending(1)
            return outcome

        later._carry_out = then_idle  # type: ignore[method-assign]
    got = verbs(later, picture)
    assert [points(o) for o in got] == [points(o) for o in wanted]
    assert [o.num_prefilled for o in got] == [o.num_prefilled for o in wanted]
    # Rounding apart: a leading chunk is its own forward's KV until its canonical is kept.
    assert kl(ask(plain).logits, ask(later).logits) <= EXACT_KL  # type: ignore[arg-type]


def test_what_a_window_needs_is_formed_first_and_the_request_says_that_it_waited(
    open_session: Any, picture: Any
) -> None:
    session = deferred(open_session)
    admit_all(session, picture, "abc")
    session.show([])
    assert session.num_pending == 4
    session.show([shown(picture, "a"), shown(picture, "b")])
    assert session.num_pending == 2, "the prefix is held, and c isn't wanted"
    assert costs(session._last) == (0, 0)  # type: ignore[arg-type]
    assert session._last is not None
    assert session._last.form_s == 0.0
    assert error(session) <= EXACT


def test_closing_forms_what_is_left(open_session: Any, picture: Any) -> None:
    class Kept(MemoryStore):
        def close(self) -> None:
            """Stay open for the next session."""

    store = Kept(1 << 30)
    with deferred(open_session, store=store) as session:
        admit_all(session, picture, "abc")
        assert session.num_pending == 4
    again = open_session(store=store)
    outcome = again.show([shown(picture, name) for name in "abc"])
    assert costs(outcome) == (0, 0)
    assert error(again) <= EXACT


def test_a_full_queue_forms_its_oldest(open_session: Any, picture: Any) -> None:
    session = deferred(open_session, max_pending=2)
    admit_all(session, picture, "abc")
    assert session.num_pending == 2
    kept = {key.kind for key in list(session.store.keys())}
    assert {"canonical", "patch"} & kept
    assert error(session) <= EXACT


def test_a_job_that_fails_is_counted_and_logged_and_formed_again_when_wanted(
    open_session: Any,
    picture: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = deferred(open_session)
    admit_all(session, picture, "ab")
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR, "kamera.session"):
        broken.setattr(type(session._former), "learn", lambda *_: 1 / 0)
        assert session.form_pending() == 3
    assert session.num_form_failures == 2
    assert caplog.text.count("could not be kept") == 2
    assert "ZeroDivisionError" in caplog.text
    assert session.num_pending == 0
    assert error(session) <= EXACT
    session.show([])
    outcome = session.show([shown(picture, "a"), shown(picture, "b")])
    assert outcome.num_prefilled == 8 + 14
    session.form_pending()
    session.show([])
    assert costs(session.show([shown(picture, "a"), shown(picture, "b")])) == (0, 0)
    assert error(session) <= EXACT


def test_an_interrupt_loses_no_job(
    open_session: Any, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = deferred(open_session)
    admit_all(session, picture, "ab")
    session.form_pending(1)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(type(session._former), "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.form_pending()
    assert session.num_pending == 2
    assert (session.form_pending(), session.num_form_failures) == (2, 0)


def test_an_error_at_once_is_the_callers(
    open_session: Any, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session()
    session.admit(shown(picture, "a"))
    monkeypatch.setattr(type(session._former), "learn", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        session.admit(shown(picture, "b"))


def test_preparing_reorders_forms_what_is_pending_first(open_session: Any, picture: Any) -> None:
    session = deferred(open_session)
    admit_all(session, picture, "ab")
    session.prepare_reorders()
    assert session.num_pending == 0
    outcome = session.reorder(list(reversed(session.window.names)))
    assert outcome.num_prefilled == 0
