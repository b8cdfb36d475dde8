"""A verb whose engine fails half way changes nothing."""

from typing import Any

import pytest
from session_reference import QUESTION, admit_all, ask, shown

from kamera.chunk import Chunk
from kamera.engines.hf import HFEngine


class Failing:
    """The engine, which fails at its n-th forward from now on."""

    def __init__(self, engine: HFEngine) -> None:
        self.engine, self.countdown = engine, -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def _tick(self) -> None:
        self.countdown -= 1
        if self.countdown == 0:
            raise RuntimeError("out of memory")

    def prefill(self, *args: Any, **kwargs: Any) -> Any:
        self._tick()
        return self.engine.prefill(*args, **kwargs)

    def see(self, chunk: Chunk) -> Any:
        self._tick()
        return self.engine.see(chunk)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        self._tick()
        return self.engine.generate(*args, **kwargs)


VERBS = {
    "admit": lambda s, p: s.admit(shown(p, "d"), name="d"),
    "reorder": lambda s, p: s.reorder(["c", "b"]),
    "recall": lambda s, p: s.recall("a", at=1),
    "show": lambda s, p: s.show([shown(p, "d"), shown(p, "a")]),
    "ask": lambda s, p: s.ask(QUESTION),
    "prepare_reorders": lambda s, p: s.prepare_reorders(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_raises_changes_nothing(
    open_session: Any, engine: HFEngine, picture: Any, verb: str
) -> None:
    failing = Failing(engine)
    session = open_session(on=failing, form_leading=False)
    admit_all(session, picture, "abc")
    session.slide()
    before = ask(session)
    window = session.window
    residents = {name: r.antecedents for name, r in session._residents.items()}
    for countdown in range(1, 20):
        failing.countdown = countdown
        try:
            VERBS[verb](session, picture)
        except RuntimeError:
            failing.countdown = -1
            assert session.window == window
            assert {n: r.antecedents for n, r in session._residents.items()} == residents
            assert ask(session).logits.equal(before.logits)
        else:
            break
    else:
        pytest.fail("the verb never came through")
    assert countdown > 1, "the fault was never hit"
