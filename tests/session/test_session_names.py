"""Names of chunks."""

from typing import Any

import pytest
from session_reference import EXACT, admit_all, error, shown

from kamera.errors import ChunkNotFoundError, ConfigError


def test_names_may_be_any_text(open_session: Any, picture: Any) -> None:
    session = open_session()
    odd = ["", " ", "a\nb", "../../etc/passwd", "漢字", "\0", "chunk-1", "x" * 5000, "🙂"]
    for name in odd:
        session.admit(shown(picture, "a"), name=name)
    assert list(session.window.names) == odd
    for outcome in (session.reorder(odd[::-1]), session.slide(8)):
        assert outcome.explain()
    session.recall("\0")
    assert session.window.names[-1] == "\0"


def test_automatic_names_step_aside_for_the_callers(open_session: Any, picture: Any) -> None:
    session, image = open_session(), shown(picture, "a")
    session.admit(image, name="chunk-1")
    session.admit(image)
    session.admit(image, name="chunk-4")
    session.admit(image)
    session.slide(2)
    session.admit(image)
    everyone = [s.name for s in (*session.window.slots, *session.window.evicted)]
    assert len(set(everyone)) == 5


def test_the_prefixs_name_is_reserved(open_session: Any, picture: Any) -> None:
    session = open_session()
    with pytest.raises(ConfigError, match="prefix"):
        session.admit(shown(picture, "a"), name="prefix")
    session.admit(shown(picture, "a"), name="a")
    assert error(session) <= EXACT


def test_a_name_is_taken_once(open_session: Any, picture: Any) -> None:
    session = open_session(capacity=1)
    admit_all(session, picture, "ab")
    for name in "ab":
        with pytest.raises(ConfigError, match="taken"):
            session.admit(shown(picture, "c"), name=name)
    with pytest.raises(ChunkNotFoundError):
        session.recall("b")
    with pytest.raises(ConfigError):
        session.slide(2)
