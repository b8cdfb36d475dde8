"""The window's KV in place: what stands already isn't written again, and what failed is written anew."""

from typing import Any

import pytest
import torch
from session_reference import QUESTION, TOKENS, admit_all, ask

from kamera.session.resident import Cached, Patched


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tokens of each chunk that is written, as it comes."""
    found: list[int] = []
    for kind in (Cached, Patched):
        plain = kind.write

        def write(self: Any, positions: Any, spec: Any, out: Any, plain: Any = plain) -> None:
            found.append(len(positions))
            plain(self, positions, spec, out)

        monkeypatch.setattr(kind, "write", write)
    return found


def behind_the_prefix(session: Any, writes: list[int]) -> list[int]:
    """The prefix comes from the store at every verb, and is written again."""
    return [count for count in writes if count != session.prefix.num_tokens]


def test_a_chunk_that_is_admitted_costs_its_own_bytes_alone(
    open_session: Any, picture: Any, writes: list[int]
) -> None:
    session = open_session()
    admit_all(session, picture, "abc")
    assert behind_the_prefix(session, writes) == [TOKENS[letter] for letter in "abc"]
    before = len(writes)
    ask(session)
    ask(session)
    assert len(writes) == before


def test_those_behind_a_chunk_that_left_are_written_again(
    open_session: Any, picture: Any, writes: list[int]
) -> None:
    session = open_session()
    admit_all(session, picture, "abc")
    del writes[:]
    session.slide()
    assert behind_the_prefix(session, writes) == [TOKENS[letter] for letter in "bc"]


@pytest.mark.parametrize("spare", [0, 1])
def test_the_room_grows_without_losing_what_stands(
    open_session: Any, picture: Any, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    wanted = open_session()
    admit_all(wanted, picture, "abcd")
    monkeypatch.setattr("kamera.session.canvas.SPARE_TOKENS", spare)
    session = open_session()
    admit_all(session, picture, "abcd")
    for one, other in zip(session.placed(), wanted.placed(), strict=True):
        assert all(one.tensors[name].equal(other.tensors[name]) for name in ("k", "v"))
    assert ask(session).logits.equal(ask(wanted).logits)


def test_an_interrupt_while_the_room_grows_loses_nothing(
    open_session: Any, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kamera.session.canvas.SPARE_TOKENS", 0)
    session = open_session()
    admit_all(session, picture, "abc")
    before, answer = session.placed(), ask(session)
    plain = torch.Tensor.copy_

    def interrupted(self: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    def room(*args: Any) -> Any:
        made = type(session.engine).room(session.engine, *args)
        for tensor in made.tensors.values():
            tensor.fill_(torch.nan)
        torch.Tensor.copy_ = interrupted  # type: ignore[method-assign, assignment]
        return made

    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "copy_", plain)  # put back
        patched.setattr(session.engine, "room", room)
        with pytest.raises(KeyboardInterrupt):
            session.ask("a longer question than before, for which there is no room yet")
    for one, other in zip(before, session.placed(), strict=True):
        assert all(one.tensors[name].equal(other.tensors[name]) for name in ("k", "v"))
    assert ask(session).logits.equal(answer.logits)


def test_an_answer_leaves_the_window_as_it_was(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, "ab")
    before = session.placed()
    session.ask(QUESTION, max_new_tokens=8)
    for one, other in zip(before, session.placed(), strict=True):
        assert all(one.tensors[name].equal(other.tensors[name]) for name in ("k", "v"))


def test_what_placed_gives_is_a_copy(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, "a")
    torch.nn.init.zeros_(session.placed()[0].tensors["k"])
    assert session.placed()[0].tensors["k"].abs().max() > 0


def test_a_write_that_breaks_off_is_made_up_for(
    open_session: Any, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session()
    admit_all(session, picture, "ab")
    before = ask(session)
    plain = Patched.write

    def broken(self: Any, positions: Any, spec: Any, out: Any) -> None:
        out["k"].zero_()
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Patched, "write", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        session.slide()  # fails at the prefix, which has not moved
    monkeypatch.setattr(Patched, "write", plain)
    assert ask(session).logits.equal(before.logits)
