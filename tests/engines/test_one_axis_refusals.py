"""What a checkpoint of these families is refused for, and whose chat template it gets."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import build
from transformers import AutoConfig

from kamera.engines.hf import HFEngine
from kamera.engines.hf.families import family_of
from kamera.errors import ConfigError, UnsupportedModelError

Changed = Callable[..., Path]


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    """A checkpoint whose config.json is another; `text_` before a key: of the language model."""

    def make(name: str, **changes: Any) -> Path:
        folder = build(name, tmp_path / name)
        path = folder / "config.json"
        read = json.loads(path.read_text())
        for key, value in changes.items():
            of = read.get("text_config", read) if key.startswith("text_") else read
            of[key.removeprefix("text_")] = value
        path.write_text(json.dumps(read))
        return folder

    return make


@pytest.mark.parametrize("text", ["mistral", "phi3", "qwen3_moe", "qwen2_5_vl_text"])
def test_a_language_model_that_was_not_tested_is_refused_by_name(
    changed: Changed, text: str
) -> None:
    folder = changed("llava", text_model_type=text)
    with pytest.raises(UnsupportedModelError, match=text) as caught:
        HFEngine.from_pretrained(folder)
    assert "qwen2" in str(caught.value)


def test_attention_both_ways_in_a_text_is_refused(changed: Changed) -> None:
    config = AutoConfig.from_pretrained(changed("gemma3_text", use_bidirectional_attention=True))
    with pytest.raises(UnsupportedModelError, match="use_bidirectional_attention"):
        family_of(config)


def test_another_models_tokenizer_is_refused(tmp_path: Path) -> None:
    folder, other = build("internvl", tmp_path / "a"), build("llava", tmp_path / "b")
    shutil.copy(other / "tokenizer.json", folder / "tokenizer.json")
    with pytest.raises(ConfigError, match="IMG_CONTEXT"):
        HFEngine.from_pretrained(folder)


def test_the_processors_own_template_file_comes_first(tmp_path: Path) -> None:
    """As in the family's processor; older checkpoints have their template there alone."""
    folder = build("llava", tmp_path / "a")
    template = "{% for m in messages %}{{ '<image>seen' }}{% endfor %}"
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    engine = HFEngine.from_pretrained(folder)
    _, tail = engine.frame("what?")
    assert tail.key.token_ids == tuple(engine.tokenizer("seen", add_special_tokens=False).input_ids)


def test_an_image_that_a_processor_refuses_says_so(tmp_path: Path, picture: Any) -> None:
    folder = build("deepseek_vl", tmp_path / "a")
    path = folder / "preprocessor_config.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "size": {"height": 42, "width": 28}})
    )
    with pytest.raises(ConfigError, match="height=42 and width=28"):
        HFEngine.from_pretrained(folder).image_chunk(picture(0))


def test_a_checkpoint_without_a_chat_template_says_so(tmp_path: Path) -> None:
    folder = build("llava", tmp_path / "a")
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="chat template"):
        HFEngine.from_pretrained(folder).frame("what?")


def test_what_a_template_refuses_says_why(tmp_path: Path) -> None:
    folder = build("llava", tmp_path / "a")
    template = "{{ raise_exception('roles must alternate') }}"
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(ConfigError, match="roles must alternate"):
        HFEngine.from_pretrained(folder).frame("what?")
