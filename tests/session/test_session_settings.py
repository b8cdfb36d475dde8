"""Settings, and `Session.open`."""

import sqlite3
from typing import Any

import pytest
from session_reference import (
    EXACT,
    admit_all,
    error,
)

import kamera
from kamera.errors import ConfigError
from kamera.session import Session, SessionSettings


@pytest.mark.parametrize("field", ["capacity", "rank", "max_orderings"])
@pytest.mark.parametrize("value", [0, -1])
def test_settings_that_cannot_be_are_refused(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=field):
        SessionSettings(**{field: value})


def test_no_chunk_that_left_need_be_remembered() -> None:
    assert SessionSettings(max_evicted=0).max_evicted == 0
    with pytest.raises(ConfigError, match="max_evicted"):
        SessionSettings(max_evicted=-1)


def test_open_refuses_bad_folders_and_settings_before_it_loads(tmp_path: Any, tiny: Any) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        Session.open(tmp_path)
    with pytest.raises(ConfigError, match="rank"):
        Session.open(tiny, rank=0)
    with pytest.raises(ConfigError, match="rnak"):
        Session.open(tiny, rnak=3)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises((ConfigError, OSError, sqlite3.Error)):
        Session.open(tiny, store=tmp_path / "file")


def test_open_gives_the_same_answers(open_session: Any, tiny: Any, picture: Any) -> None:
    with Session.open(tiny, capacity=2) as opened:
        admit_all(opened, picture, "ab")
        assert error(opened) <= EXACT
        assert opened.settings == SessionSettings(capacity=2)


def test_an_unknown_setting_names_the_nearest_before_anything_is_loaded() -> None:
    with pytest.raises(ConfigError, match="did you mean 'capacity'"):
        kamera.Session.open("nowhere", capcity=2)
