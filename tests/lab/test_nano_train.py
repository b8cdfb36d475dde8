"""Every new family's recipe on a few frames: it stays finite, and the Auto classes read it back."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

import kamera
from kamera.engines.hf.kimi_images import Kimi_K25ImageProcessorPil
from kamera.lab.nano.checkpoint import save_checkpoint
from kamera.lab.nano.family import load_family
from kamera.lab.nano.frame_pool import build_pool, draw_legend, draw_small
from kamera.lab.nano.levels import with_levels
from kamera.lab.nano.recipes import Trainee
from kamera.lab.nano.train import parse
from kamera.lab.tasks import ANSWERS

NEW = ("deepstack", "mla", "mha")
TRIAL = 0.001
"""The share of all steps and frames: two steps of each phase, 64 frames of each kind."""


@pytest.mark.parametrize("name", NEW)
def test_a_recipe_trains_and_what_it_saves_is_read_back_as_bfloat16(name, tmp_path: Path) -> None:
    family = load_family(name)
    model, tokenizer = family.build(tmp_path, seed=0)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    folder = kamera.packaged_model()
    teacher = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    trainee = Trainee(family, model, tokenizer, seed=0, share=TRIAL)
    trainee.learn(teacher, AutoTokenizer.from_pretrained(folder))
    save_checkpoint(model, tmp_path)
    loaded = AutoModelForImageTextToText.from_pretrained(tmp_path, dtype="auto")
    assert type(loaded) is type(model)
    assert loaded.dtype == torch.float32
    state = loaded.state_dict()
    assert state.keys() == before.keys()
    for key, value in model.state_dict().items():
        assert value.isfinite().all(), key
        assert torch.equal(state[key], value.bfloat16().float()), key
    for part in ("language_model.layers.7.mlp.down_proj.weight", f"{family.last[0]}.weight"):
        assert not torch.equal(before[f"model.{part}"], model.state_dict()[f"model.{part}"])


@pytest.mark.parametrize("name", NEW)
def test_each_answer_is_one_token_and_the_template_frames_it_as_training_does(
    name, tmp_path
) -> None:
    family = load_family(name)
    chat = family.chat
    family.build(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert all(len(tokenizer(answer).input_ids) == 1 for answer in ANSWERS)
    content = [{"type": "image"}, {"type": "text", "text": "where is the ball?"}]
    said = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    image = f"{chat.before}{chat.pad}{chat.after[0]}"
    assert said == f"{chat.opening}{image}where is the ball?{chat.answer}"


def test_the_levels_of_an_embedding_add_up_to_it() -> None:
    torch.manual_seed(0)
    basis = torch.linalg.qr(torch.randn(128, 5))[0]
    onto = [basis[:, :3] @ basis[:, :3].T, basis[:, 3:] @ basis[:, 3:].T]
    whole = torch.randn(4, 9, 128)
    parts = with_levels(whole, onto).split(128, -1)
    torch.testing.assert_close(sum(parts), whole, rtol=0, atol=128 * 2**-23)
    assert float((parts[0] @ onto[0]).abs().max()) <= 128 * 2**-23


@pytest.mark.parametrize(("draw", "size"), [(draw_legend, 224), (draw_small, 112)])
@pytest.mark.parametrize("name", ["gqa", *NEW])
def test_frames_become_the_pixels_that_the_checkpoints_own_processor_gives(
    name, draw, size, tmp_path
) -> None:
    family = load_family(name)
    family.build(tmp_path)
    if name == "mla":  # Transformers has Kimi's for torchvision alone
        processor = Kimi_K25ImageProcessorPil.from_pretrained(tmp_path)
    else:
        processor = AutoImageProcessor.from_pretrained(tmp_path, backend="pil")
    images = build_pool(draw, 3, seed=1).images
    assert images.shape[1] == size
    mine = family.vision_inputs(images)["pixel_values"]
    frames = [Image.fromarray(image.numpy()) for image in images]
    theirs = processor(images=frames, return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(mine, theirs, rtol=0, atol=8 * 2**-23)  # values up to 2.7


def test_the_command_names_its_checkpoints() -> None:
    assert parse(["mla", "out"]).name == "mla"
    with pytest.raises(SystemExit):
        parse(["nano", "out"])
    with pytest.raises(ValueError, match="expected one of"):
        load_family("nano")
