"""Every verb on a real engine: which lanes it takes, what they cost, and how far they are from re-prefill.

Chunks a, b, c, d have grids of 2x3, 3x4, 2x5 and 3x3 merged tokens and two wrapper tokens each.
"""

import sqlite3
from dataclasses import replace
from typing import Any

import pytest
import torch
from session_reference import QUESTION, admit_all, ask, costs, error, kl, points, shown, truth

import kamera
from kamera.chunk import Chunk
from kamera.engines.hf import HFEngine
from kamera.errors import ChunkNotFoundError, ConfigError
from kamera.planner import OperatingPoint
from kamera.session import Session, SessionSettings
from kamera.session.resident import Cached
from kamera.store import MemoryStore

TOKENS = {"a": 8, "b": 14, "c": 12, "d": 11}
EXACT = 1e-6


def test_the_pictures_have_the_grids_that_the_tests_count_with(
    engine: HFEngine, picture: Any
) -> None:
    for name, num_tokens in TOKENS.items():
        assert engine.image_chunk(shown(picture, name)).num_tokens == num_tokens


def test_admitting_prefills_the_new_chunk_alone(open_session: Any, picture: Any) -> None:
    session = open_session()
    outcomes = admit_all(session, picture, "abc")
    prefix = session.prefix.num_tokens
    assert [costs(o) for o in outcomes] == [(prefix + 8, 1), (14, 1), (12, 1)]
    assert points(outcomes[2]) == {
        "prefix": "leading", "a": "leading", "b": "leading", "c": "form"
    }  # fmt: skip
    starts = [outcomes[2][name].start for name in ("prefix", "a", "b", "c")]
    assert starts == [0, prefix, prefix + 2 + 3, prefix + 2 + 3 + 2 + 4]
    assert error(session) <= EXACT


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


def test_a_slide_prefills_nothing_held_and_never_sees_again(
    open_session: Any, picture: Any
) -> None:
    session = open_session()
    admit_all(session, picture, "abcd")
    runs = session.engine.num_vision_runs
    outcome = session.slide()
    assert outcome.evicted == ("a",)
    assert costs(outcome) == (0, 0)
    assert outcome.num_formed == 0
    assert points(outcome) == {
        "prefix": "leading", "b": "exact", "c": "survivor", "d": "survivor"
    }  # fmt: skip
    assert outcome["b"].start == session.prefix.extent
    assert session.engine.num_vision_runs == runs
    assert session.slide(2).evicted == ("b", "c")
    assert session.engine.num_vision_runs == runs


def test_a_slide_down_to_one_is_exact(open_session: Any, picture: Any) -> None:
    """The last one stands behind the prefix alone, for which its patch was formed ahead."""
    session = open_session()
    admit_all(session, picture, "abc")
    outcome = session.slide(2)
    assert points(outcome) == {"prefix": "leading", "c": "exact"}
    assert outcome["c"].patch_rank == TOKENS["c"]
    assert outcome["c"].patch_bytes > 0
    assert error(session) <= EXACT


def test_without_form_leading_the_new_head_survives_instead(
    open_session: Any, picture: Any
) -> None:
    session = open_session(form_leading=False)
    admit_all(session, picture, "ab")
    assert points(session.slide())["b"] == "survivor"
    assert error(session) > 1e-4, "a survivor still holds what has left"


def test_survivors_hold_exactly_their_old_conditioned_kv(open_session: Any, picture: Any) -> None:
    """Relocated, nothing else: the same values, keys turned by the shift."""
    session = open_session()
    admit_all(session, picture, "abc")
    chunk = session._chunks[session.window.slots[2].chunk]
    before, old_start = session._placed[3], session.ask(QUESTION)["c"].start
    outcome = session.slide()
    assert outcome["c"].point is OperatingPoint.SURVIVOR
    after = session._placed[2]
    assert after.tensors["v"].equal(before.tensors["v"])
    spec, start = session.engine.spec, outcome["c"].start
    moved = before.to_canonical(chunk.layout.at(old_start), spec).at(chunk.layout.at(start), spec)
    assert after.tensors["k"].equal(moved.tensors["k"])
    assert not after.tensors["k"].equal(before.tensors["k"])


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


def test_orderings_above_the_limit_are_sampled(open_session: Any, picture: Any) -> None:
    session = open_session(max_orderings=4)
    admit_all(session, picture, "abc")
    assert session.prepare_reorders() == 4


@pytest.mark.parametrize("at", [None, 0, 1])
def test_a_recalled_chunk_is_exact_and_is_not_seen_again(
    open_session: Any, picture: Any, at: int | None
) -> None:
    session = open_session(capacity=3)
    admit_all(session, picture, "abc")
    session.slide()
    runs = session.engine.num_vision_runs
    outcome = session.recall("a", at=at)
    assert session.engine.num_vision_runs == runs
    assert outcome["a"].num_vision_runs == 0
    assert outcome["a"].point is (OperatingPoint.EXACT if at == 0 else OperatingPoint.RECALL)
    assert outcome["a"].num_prefilled == (0 if at == 0 else TOKENS["a"])


def test_recall_into_an_exact_window_is_exact(open_session: Any, picture: Any) -> None:
    session = open_session(capacity=2)
    admit_all(session, picture, "ab")
    session.slide()
    outcome = session.recall("a")
    assert points(outcome)["a"] == "recall"
    assert error(session) <= EXACT
    session.slide()
    session.admit(shown(picture, "c"), name="c")
    assert error(session) <= EXACT
    session.recall("b", at=0)
    assert error(session) <= EXACT


def test_showing_a_window_again_is_free(open_session: Any, picture: Any) -> None:
    session = open_session()
    window = [shown(picture, name) for name in "abc"]
    first = session.show(window)
    assert costs(first) == (session.prefix.num_tokens + 8 + 14 + 12, 3)
    assert error(session) <= EXACT
    again = session.show(window)
    assert costs(again) == (0, 0)
    assert again.evicted == ()
    emptied = session.show([])
    assert len(emptied.evicted) == 3
    back = session.show(window)
    assert costs(back) == (0, 0)
    assert [c.point.value for c in back.chunks] == ["leading", "exact", "exact", "exact"]
    assert error(session) <= EXACT


def test_a_request_may_show_one_image_twice(open_session: Any, picture: Any) -> None:
    session, image = open_session(), shown(picture, "a")
    outcome = session.show([image, shown(picture, "b"), image])
    assert len({chunk.name for chunk in outcome.chunks}) == 4
    assert outcome.num_vision_runs == 2
    assert error(session) <= EXACT
    assert costs(session.show([image, shown(picture, "b"), image])) == (0, 0)


def test_one_image_under_two_names(open_session: Any, picture: Any) -> None:
    session = open_session(capacity=3)
    session.admit(shown(picture, "a"), name="first")
    again = session.admit(shown(picture, "a"), name="second")
    assert again["second"].num_vision_runs == 0
    assert again["second"].point is OperatingPoint.FORM
    assert error(session) <= EXACT
    session.slide()
    session.recall("first")
    assert error(session) <= EXACT
    assert costs(session.reorder(["first", "second"])) == (0, 0)
    assert error(session) <= EXACT


def test_a_window_of_one(open_session: Any, picture: Any) -> None:
    session = open_session(capacity=1)
    for name in "abc":
        session.admit(shown(picture, name), name=name)
        assert session.window.names == (name,)
        assert error(session) <= EXACT
    outcome = session.recall("a")
    assert outcome.evicted == ("c",)
    assert points(outcome) == {"prefix": "leading", "a": "exact"}
    assert error(session) <= EXACT


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


def test_a_thousand_moves_do_not_drift(open_session: Any, picture: Any) -> None:
    """Always placed from what is held: home again after any number of moves, bit for bit."""
    session = open_session()
    admit_all(session, picture, "ab")
    name, chunk = "b", session._chunks[session.window.slots[1].chunk]
    resident, spec = session._residents[name], session.engine.spec
    assert isinstance(resident.source, Cached)
    home = session._placed[2]
    for move in range(1000):
        resident.source.at(chunk.layout.at(7 * move + 1), spec)
    assert resident.source.at(resident.source.positions, spec).tensors["k"].equal(home.tensors["k"])
    far = resident.source.at(chunk.layout.at(20_000), spec)
    direct = home.to_canonical(resident.source.positions, spec).at(chunk.layout.at(20_000), spec)
    assert far.tensors["k"].equal(direct.tensors["k"])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_chunk_that_moves_to_and_fro_does_not_drift(
    open_session: Any, bf16_engine: HFEngine, engine: HFEngine, picture: Any, dtype: str
) -> None:
    """One chunk recalled to the front and slid out again, so that another moves to and fro."""
    session = open_session(
        on=engine if dtype == "float32" else bf16_engine, form_leading=False, rank=4
    )
    admit_all(session, picture, "abc")
    session.slide()
    first = [kv.tensors["k"].clone() for kv in session._placed]
    for _ in range(10):
        session.recall("a", at=0)
        session.slide()
    again = [kv.tensors["k"] for kv in session._placed]
    # b is held behind [prefix, a] either way: its bytes may not change
    assert again[1].equal(first[1])


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


@pytest.mark.parametrize("field", ["capacity", "rank", "max_orderings"])
@pytest.mark.parametrize("value", [0, -1])
def test_settings_that_cannot_be_are_refused(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=field):
        SessionSettings(**{field: value})


def test_chunks_of_another_model_or_tenant_are_refused(
    open_session: Any, bf16_engine: HFEngine, engine: HFEngine, picture: Any
) -> None:
    session = open_session(tenant="us")
    for theirs in (
        bf16_engine.image_chunk(shown(picture, "a"), tenant="us"),
        engine.image_chunk(shown(picture, "a"), tenant="them"),
    ):
        with pytest.raises(ConfigError, match="expected one"):
            session.show([theirs])
    session.show([engine.image_chunk(shown(picture, "a"), tenant="us")])


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


def test_a_low_rank_is_closer_than_blind_and_labelled(open_session: Any, picture: Any) -> None:
    session = open_session(rank=4)
    admit_all(session, picture, "abc")
    session.show([])
    outcome = session.show([shown(picture, n) for n in "abc"])
    assert {c.patch_rank for c in outcome.chunks[1:]} == {4}
    full = open_session()
    admit_all(full, picture, "abc")
    full.show([])
    more = full.show([shown(picture, n) for n in "abc"])
    assert more.chunks[1].patch_bytes > outcome.chunks[1].patch_bytes
    assert error(full) <= EXACT < error(session)


def test_an_orbit_patch_keeps_its_label_while_it_is_held(open_session: Any, picture: Any) -> None:
    session = open_session()
    admit_all(session, picture, "abc")
    session.prepare_reorders()
    session.reorder(["c", "b", "a"])
    assert points(session.admit(shown(picture, "d"), name="d"))["a"] == "orbit"


def test_a_patch_formed_behind_a_stale_context_is_never_served_as_exact(
    open_session: Any, picture: Any
) -> None:
    store = MemoryStore(1 << 30)
    first = open_session(store=store, capacity=3)
    admit_all(first, picture, "abcd")  # d is prefilled behind [b, c], c still conditioned on a
    second = open_session(store=store)
    outcome = second.show([shown(picture, name) for name in "bcd"])
    assert "survivor" not in points(outcome).values()
    assert error(second) <= EXACT


def test_an_unknown_setting_names_the_nearest_before_anything_is_loaded() -> None:
    with pytest.raises(ConfigError, match="did you mean 'capacity'"):
        kamera.Session.open("nowhere", capcity=2)


def test_a_session_that_must_forget_forms_what_would_survive(
    open_session: Any, picture: Any
) -> None:
    session = open_session(keep_survivors=False, rank=1000)
    admit_all(session, picture, "abc")
    slid = session.slide()
    assert points(slid) == {"prefix": "leading", "b": "exact", "c": "form"}
    assert slid["c"].num_prefilled == slid["c"].num_tokens
    assert error(session) <= EXACT


def test_outcomes_add_up_and_explain(open_session: Any, picture: Any) -> None:
    session = open_session()
    outcome = admit_all(session, picture, "ab")[1]
    lines = outcome.explain().splitlines()
    assert len(lines) == 3
    assert lines[2].startswith(f"b at {outcome['b'].start}: form (")
    assert "prefilled 14 of 14 tokens" in lines[2]
    slid = session.slide()
    assert slid.explain().splitlines()[0] == "slide: evicted a"
    with pytest.raises(KeyError):
        outcome["nobody"]
    assert replace(outcome, chunks=()).num_prefilled == 0


def test_tenants_share_no_chunk(open_session: Any, picture: Any) -> None:
    store = MemoryStore(1 << 30)
    first = open_session(store=store, tenant="a")
    admit_all(first, picture, "a")
    other = open_session(store=store, tenant="b")
    prefix = other.prefix.num_tokens
    assert costs(admit_all(other, picture, "a")[0]) == (prefix + 8, 1)
    same = open_session(store=store, tenant="a")
    assert costs(admit_all(same, picture, "a")[0]) == (0, 0)


def test_bf16_windows_stay_close_to_re_prefill(
    open_session: Any, bf16_engine: HFEngine, picture: Any
) -> None:
    session = open_session(on=bf16_engine)
    admit_all(session, picture, "ab")
    assert points(session.slide())["b"] == "exact"
    assert session._placed[1].dtype == torch.bfloat16
    wrong = kl(truth(session), truth(session, "another?"))
    assert error(session) < 0.1 * wrong


def test_a_text_span_is_admitted_as_a_chunk_and_moves_like_an_image(
    open_session: Any, picture: Any, engine: HFEngine
) -> None:
    note = engine.text_chunk("A frame, a page, an image and a text are chunks of the window.")
    session = open_session(capacity=2)
    session.admit(note, name="note")
    session.admit(shown(picture, "a"), name="a")
    session.reorder(["a", "note"])
    assert error(session) < EXACT
    with pytest.raises(ConfigError, match="tenant"):
        session.admit(engine.text_chunk("a note", tenant="them"))


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
