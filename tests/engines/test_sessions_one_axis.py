"""A session over a whole tiny checkpoint of each family with images: admitted, slid, recalled, asked."""

from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import IMAGES, build
from hf_reference import kl

from kamera.errors import ConfigError
from kamera.session import Session

QUESTION = "what color is the shape?"
EXACT_KL = 1e-9
FULL = 10**6


def prefilled_again(session: Session) -> Any:
    """Logits of one forward over the prefix, the window's chunks and the question."""
    engine = session.engine
    chunks = [session._chunks[slot.chunk] for slot in session.window.slots]
    prefix, tail = engine.frame(QUESTION)
    whole = [*([prefix] if prefix else []), *chunks, tail]
    vision = {c.media.digest: engine.see(c) for c in whole if c.media}
    return engine.prefill(whole, vision, start=0).logits


def error(session: Session) -> float:
    answer = session.ask(QUESTION, max_new_tokens=3)
    assert answer.logits is not None
    assert torch.isfinite(answer.logits).all()
    return kl(prefilled_again(session), answer.logits)


@pytest.mark.parametrize("name", list(IMAGES))
def test_a_window_is_exact_until_it_slides_and_again_when_its_head_is_back(
    tmp_path: Path, picture: Any, name: str
) -> None:
    with Session.open(build(name, tmp_path / name), rank=FULL) as session:
        sizes = [(84, 56), (60, 130), (56, 56)]
        for number, size in enumerate(sizes):
            session.admit(picture(number, *size), name=f"n{number}")
        assert error(session) <= EXACT_KL
        slid = session.slide()
        assert slid.num_prefilled == 0
        assert error(session) > EXACT_KL, (
            "survivors carry what they absorbed from the head that left"
        )
        back = session.recall("n0", at=0)
        assert {chunk.point.value for chunk in back.chunks} <= {"leading", "exact", "recall"}
        assert error(session) <= EXACT_KL


@pytest.mark.parametrize("name", list(IMAGES))
def test_media_tokens_in_a_text_are_refused(tmp_path: Path, name: str) -> None:
    with Session.open(build(name, tmp_path / name)) as session:
        token = session.engine.family.modalities[0].token
        with pytest.raises(ConfigError, match=r"marker|Media token"):
            session.ask(f"what is {token} here?")


def test_a_text_model_has_its_start_and_turn_header_in_front_of_the_chunks(tmp_path: Path) -> None:
    with Session.open(build("llama", tmp_path / "llama"), rank=FULL) as session:
        engine = session.engine
        prefix, tail = engine.frame(QUESTION)
        rendered = engine.tokenizer.apply_chat_template(
            [{"role": "user", "content": QUESTION}], tokenize=False, add_generation_prompt=True
        )
        before, after = rendered.split(QUESTION)
        start = engine.tokenizer.bos_token  # the template writes none, so that it is added
        assert engine.tokenizer.decode(prefix.key.token_ids) == start + before
        assert engine.tokenizer.decode(tail.key.token_ids) == QUESTION + after
        for number, text in enumerate(("A frame, a page.", "An image and a text.", "describe it")):
            session.admit(engine.text_chunk(text), name=f"n{number}")
        session.reorder(["n2", "n0", "n1"])
        assert error(session) <= EXACT_KL
        with pytest.raises(ConfigError, match="text_chunk"):
            session.admit("picture.png")
