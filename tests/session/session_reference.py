"""What a session's window says when everything is prefilled again, from the pixels."""

from typing import Any

import torch
from torch import Tensor

from kamera.session import Answer, Outcome, Session

QUESTION = "which digit goes with the shape?"
TOKENS = {"a": 8, "b": 14, "c": 12, "d": 11}
"""Of the chunks that `shown` draws: grids of 2x3, 3x4, 2x5 and 3x3 merged tokens, two wrapper tokens each."""

EXACT = 1e-6


def truth(session: Session, question: str = QUESTION) -> Tensor:
    """Logits of one forward over the prefix, the window's chunks and the question."""
    engine, chunks = session.engine, [session._chunks[c] for c in session._order(session.window)]
    _, tail = engine.frame(question, tenant=session.settings.tenant)
    vision = {c.media.digest: engine.see(c) for c in chunks if c.media}
    return engine.prefill([*chunks, tail], vision, start=0).logits


def kl(expected: Tensor, got: Tensor) -> float:
    """KL(expected || got), float64."""
    p, q = expected.double().log_softmax(-1), got.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum().item()


def ask(session: Session, question: str = QUESTION) -> Answer:
    return session.ask(question, max_new_tokens=3)


def error(session: Session, question: str = QUESTION) -> float:
    """KL of re-prefill against the session's answer."""
    answer = ask(session, question)
    assert answer.logits is not None
    assert torch.isfinite(answer.logits).all()
    return kl(truth(session, question), answer.logits)


def points(outcome: Outcome) -> dict[str, str]:
    return {chunk.name: chunk.point.value for chunk in outcome.chunks}


def costs(outcome: Outcome) -> tuple[int, int]:
    return outcome.num_prefilled, outcome.num_vision_runs


def admit_all(session: Session, picture: Any, names: str) -> list[Outcome]:
    """Pictures of unequal grids, one for each letter: the same letter is the same picture."""
    return [session.admit(shown(picture, name), name=name) for name in names]


def shown(picture: Any, name: str) -> Any:
    seed = ord(name) - ord("a")
    return picture(seed, 84 + 28 * (seed % 3), 56 + 28 * (seed % 2))
