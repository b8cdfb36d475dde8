"""Sessions on the tiny engine, closed at the end."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kamera.session import Session

OpenSession = Callable[..., "Session"]

FULL = 10**6
"""A rank that is clipped to every chunk's full rank."""


@pytest.fixture
def open_session(engine: Any) -> Iterator[OpenSession]:
    """A session at full rank over memory; other settings, a store or an engine by keyword."""
    from kamera.session import Session, SessionSettings
    from kamera.store import MemoryStore

    opened: list[Session] = []

    def open_one(*, store: Any = None, on: Any = None, **settings: Any) -> Session:
        chosen = SessionSettings(**{"rank": FULL} | settings)
        opened.append(Session(on or engine, store or MemoryStore(1 << 30), chosen))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()
