"""Random sequences of verbs: after each one, what an outcome calls exact is what re-prefill caches.

A chunk that isn't exact must still be the right picture at the right place: nothing is absorbed before the
first attention, so its first layer's KV is re-prefill's whatever lane served it.
"""

import random
from typing import Any

import pytest
from session_reference import ask, kl, shown, truth

from kamera.errors import KameraError
from kamera.planner import OperatingPoint
from kamera.session import Outcome, Session
from kamera.store import MemoryStore

EXACT_KL = 1e-9
EXACT_KV = 1e-4
"""Relative, of a chunk's keys and values. On these random weights what is exact is within 1e-5, what isn't
off by a half."""
NUM_VERBS = 24
PICTURES = "abcde"
FULL = 10**6


class Walk:
    """A session and, apart from it, the letters of the pictures that it should hold."""

    def __init__(self, session: Session, rng: random.Random, picture: Any) -> None:
        self.session, self.rng, self.picture = session, rng, picture
        self.letter: dict[str, str] = {}

    def letters(self) -> list[str]:
        return [self.letter[name] for name in self.session.window.names]

    def admit(self) -> Outcome:
        letter, name = self.rng.choice(PICTURES), f"n{len(self.letter)}"
        outcome = self.session.admit(shown(self.picture, letter), name=name)
        self.letter[name] = letter
        return outcome

    def slide(self) -> Outcome:
        return self.session.slide(self.rng.randint(1, 2))

    def reorder(self) -> Outcome:
        names = list(self.session.window.names)
        self.rng.shuffle(names)
        return self.session.reorder(names)

    def prepared(self) -> Outcome:
        if self.session.window.slots:
            self.session.prepare_reorders()
        return self.reorder()

    def recall(self) -> Outcome:
        gone = [slot.name for slot in self.session.window.evicted] or ["nobody"]
        return self.session.recall(self.rng.choice(gone[-4:]), at=self.rng.choice([None, 0, 1]))

    def show(self) -> Outcome:
        letters = self.rng.choices(PICTURES, k=self.rng.randint(0, 3))
        outcome = self.session.show([shown(self.picture, letter) for letter in letters])
        self.letter.update(zip(self.session.window.names, letters, strict=True))
        return outcome

    def step(self) -> Outcome:
        verbs = [*[self.admit] * 5, *[self.prepared] * 2, *[self.recall] * 2]
        return self.rng.choice([*verbs, self.slide, self.reorder, self.show])()


def gaps(session: Session, letters: list[str], picture: Any) -> list[tuple[float, float]]:
    """Per chunk, how far its first layer and all its layers are from re-prefill's, relatively.

    `letters` are the pictures that the window should hold, kept apart from the session's own books.
    """
    engine = session.engine
    chunks = [engine.image_chunk(shown(picture, letter)) for letter in letters]
    vision = {c.media.digest: engine.see(c) for c in chunks}
    chunks = [session.prefix, *chunks]
    full = engine.prefill(chunks, vision, start=0).kv
    found, token = [], 0
    for chunk, placed in zip(chunks, session.placed(), strict=True):
        want = full.slice_tokens(token, token + chunk.num_tokens)
        first, whole = 0.0, 0.0
        for name in ("k", "v"):
            gap = (placed.tensors[name] - want.tensors[name]).abs()
            scale = want.tensors[name].abs()
            first = max(first, float(gap[0].max() / scale[0].max()))
            whole = max(whole, float(gap.max() / scale.max()))
        found.append((first, whole))
        token += chunk.num_tokens
    return found


def check(session: Session, outcome: Outcome, letters: list[str], picture: Any) -> None:
    full_rank = session.settings.rank == FULL
    answer = ask(session)
    assert answer.logits is not None
    assert [c.name for c in outcome.chunks[1:]] == list(session.window.names)
    assert [c.exact for c in answer.chunks] == [c.exact for c in outcome.chunks]
    gap = kl(truth(session), answer.logits)
    assert gap < float("inf")
    if all(chunk.exact for chunk in outcome.chunks):
        assert gap <= EXACT_KL, outcome.explain()
    found = gaps(session, letters, picture)
    for chunk, (first, whole) in zip(outcome.chunks, found, strict=True):
        assert first <= EXACT_KV, f"{chunk.name}: {first}\n{outcome.explain()}"
        if chunk.exact or (full_rank and chunk.point is OperatingPoint.EXACT):
            assert whole <= EXACT_KV, f"{chunk.name}: {whole}\n{outcome.explain()}"


@pytest.mark.parametrize("seed", range(6))
def test_what_is_called_exact_is_what_re_prefill_caches(
    open_session: Any, picture: Any, seed: int
) -> None:
    rng = random.Random(seed)
    room = 400_000 if seed % 3 == 2 else 1 << 30  # the small store loses what the books still list
    store = MemoryStore(room)
    settings = {
        "capacity": rng.choice([2, 3, 3]),
        "rank": rng.choice([2, FULL, FULL]),
        "forming": rng.choice(["at once", "deferred"]),
        "form_leading": rng.random() < 0.5,
        "max_orderings": rng.choice([3, 24]),
    }
    walk = Walk(open_session(store=store, **settings), rng, picture)
    for _ in range(NUM_VERBS):
        if rng.random() < 0.05:  # another process over the same store
            walk = Walk(open_session(store=store, **settings), rng, picture)
        window = walk.session.window
        try:
            outcome = walk.step()
        except KameraError:
            assert walk.session.window == window
            continue
        check(walk.session, outcome, walk.letters(), picture)
