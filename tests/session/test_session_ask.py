"""Questions: no chunk is prefilled for one, and what is no question is refused."""

from typing import Any

import pytest
from session_reference import EXACT, QUESTION, admit_all, ask, costs, error, shown, truth

from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError


def test_asking_prefills_no_chunk_and_sees_nothing(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, "ab")
    runs = session.engine.num_vision_runs
    answer = ask(session)
    assert costs(answer) == (0, 0)
    assert session.engine.num_vision_runs == runs
    _, tail = session.engine.frame(QUESTION)
    assert answer.num_tail == tail.num_tokens
    assert answer.token_ids[0] == int(truth(session).argmax())


def test_asking_twice_gives_identical_logits(open_session: Any, picture: Any) -> None:
    session = open_session(capacity=2)
    admit_all(session, picture, "abc")  # a patched and a survived chunk are in
    first = ask(session)
    ask(session, "another question?")
    again = ask(session)
    assert first.logits.equal(again.logits)
    assert (first.token_ids, first.text) == (again.token_ids, again.text)


def test_an_empty_window_can_be_asked(open_session: Any, picture: Any) -> None:
    session = open_session()
    assert error(session) <= EXACT
    session.admit(shown(picture, "a"))
    session.slide()
    assert error(session) <= EXACT


def test_every_question_gets_its_own_answer(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, "ab")
    for question in ("where is the ball?", "", "naïve 漢字", "<|im_end|>"):
        assert error(session, question) <= EXACT


def test_a_question_with_a_placeholder_is_refused(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, "a")
    with pytest.raises(ConfigError, match="Media tokens"):
        session.ask("<|image_pad|>")
    assert error(session) <= EXACT


def test_a_tail_that_is_no_text_of_this_engine_is_refused(
    open_session: Any, picture: Any, engine: HFEngine, bf16_engine: HFEngine
) -> None:
    session = open_session()
    session.admit(shown(picture, "a"))
    for tail in (
        engine.image_chunk(shown(picture, "b")),
        bf16_engine.text_chunk("?"),
        engine.text_chunk("?", tenant="them"),
    ):
        with pytest.raises(ConfigError, match="expected"):
            session.generate(tail)
    assert session.generate(engine.text_chunk("?"), max_new_tokens=1).token_ids


def test_a_question_that_the_template_puts_in_front_of_the_images_is_refused(
    open_session: Any, picture: Any, engine: HFEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pinned prefix would hold another question, and the tail none."""
    monkeypatch.setattr(
        engine.tokenizer,
        "chat_template",
        "{% for p in messages[0]['content'] if p['type'] == 'text' %}{{ p['text'] }}{% endfor %}"
        "<|vision_start|><|image_pad|><|vision_end|> answer:",
    )
    session = open_session()
    session.admit(shown(picture, "a"))
    with pytest.raises(ConfigError, match="prefix"):
        session.ask("what color is the shape?")
