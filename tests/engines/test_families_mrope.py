"""The M-RoPE families on tiny random models: images, against the model's own forward from pixels."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from checkpoints import MROPE, build
from checkpoints.mrope import DEEPSTACK, SPELLING, wrapped
from hf_reference import prompt_positions, relative
from mrope_reference import (
    HEAD_ROUNDING,
    check_chunk_by_chunk,
    check_one_forward,
    check_positions,
    our_tokens,
    own_forward,
    own_tokens,
    see,
)

from kamera.channels import ChunkKV
from kamera.engines.contract import Prompt
from kamera.engines.hf import HFEngine
from kamera.engines.hf.families import FAMILIES as TABLE
from kamera.errors import ConfigError


@pytest.fixture(scope="module", params=list(MROPE))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(family, tmp_path_factory.mktemp(family) / "checkpoint")


@pytest.fixture(scope="module")
def engine(folder: Path) -> HFEngine:
    return HFEngine.from_pretrained(folder)


def asked(engine: HFEngine, picture: Any, first: int = 0) -> Prompt:
    """Two images of unequal grids (2 x 5 and 4 x 2 tokens), text around and between."""
    side = 2 * engine.processors["image"].patch_size
    shown = picture(first, 5 * side, 2 * side), picture(1, 2 * side, 4 * side)
    parts: list[dict[str, Any]] = [{"type": "text", "text": "Frames: "}]
    parts += [{"type": "image", "image": shown[0]}, {"type": "text", "text": " and "}]
    parts += [{"type": "image", "image": shown[1]}, {"type": "text", "text": "where is it?"}]
    return engine.prompt([{"role": "user", "content": parts}])


@pytest.fixture(scope="module")
def prompt(engine: HFEngine, picture: Any) -> Prompt:
    return asked(engine, picture)


def test_positions_are_the_models_own(engine: HFEngine, prompt: Prompt) -> None:
    check_positions(engine, prompt)
    mine = prompt_positions(prompt)
    assert not mine[1].equal(mine[2])
    assert not mine[0].equal(mine[1])


def test_one_forward_gives_the_models_own_kv_bit_for_bit(engine: HFEngine, prompt: Prompt) -> None:
    check_one_forward(engine, prompt)


def test_one_forward_in_bfloat16_too(folder: Path, picture: Any) -> None:
    engine = HFEngine.from_pretrained(folder, dtype="bfloat16")
    made = asked(engine, picture)
    _, kv = own_forward(engine, made)
    mine = engine.prefill((*made.chunks, made.tail), see(engine, made), start=0)
    for name, tensor in kv.tensors.items():
        assert tensor.dtype == torch.bfloat16
        assert mine.kv.tensors[name].equal(tensor)


def test_chunk_by_chunk_is_as_close_to_the_truth_as_one_forward(
    engine: HFEngine, folder: Path, picture: Any
) -> None:
    check_chunk_by_chunk(engine, folder, lambda on: asked(on, picture))


def test_another_image_is_seen_at_once(engine: HFEngine, prompt: Prompt, picture: Any) -> None:
    """The exactness tests mean something only where a wrong window shows."""
    right, _ = own_forward(engine, prompt)
    wrong, _ = own_forward(engine, asked(engine, picture, first=7))
    assert relative(wrong, right) > 0.05


@pytest.mark.parametrize("offset", [1, 37, 3000])
def test_a_canonical_moves_exactly(engine: HFEngine, prompt: Prompt, offset: int) -> None:
    chunk, vision = prompt.chunks[1], see(engine, prompt)
    assert chunk.media is not None
    solo = engine.prefill([chunk], vision, start=0).kv.to_canonical(chunk.layout.at(0), engine.spec)
    there = engine.prefill([chunk], vision, start=offset).kv

    def error(at: int, layer: int) -> float:
        moved = solo.at(chunk.layout.at(at), engine.spec)
        return relative(moved.tensors["k"][layer], there.tensors["k"][layer])

    assert solo.tensors["v"][0].equal(there.tensors["v"][0])
    assert error(offset, 0) <= 5e-7
    # deeper layers have felt the float32 rounding of the model's own angles
    assert error(offset, 2) <= 1e-5 * (1 + offset / 16)
    assert error(offset + 1, 0) > 0.05


def test_rope_deltas_left_by_another_call_change_nothing(engine: HFEngine, prompt: Prompt) -> None:
    vision = see(engine, prompt)
    engine.model.model.rope_deltas = None
    clean = engine.prefill((*prompt.chunks, prompt.tail), vision, start=0)
    tail = engine.generate(prompt.tail, start=50, context=clean.kv, max_new_tokens=4)
    engine.model.model.rope_deltas = torch.tensor([[-123]])
    stale = engine.prefill((*prompt.chunks, prompt.tail), vision, start=0)
    again = engine.generate(prompt.tail, start=50, context=stale.kv, max_new_tokens=4)
    assert stale.logits.equal(clean.logits)
    for name, tensor in clean.kv.tensors.items():
        assert stale.kv.tensors[name].equal(tensor)
    assert again.token_ids == tail.token_ids
    assert again.logits.equal(tail.logits)


def test_decoding_behind_media_is_the_models_generate(engine: HFEngine, prompt: Prompt) -> None:
    wanted = own_tokens(engine, prompt, 8)
    assert our_tokens(engine, prompt, 8) == wanted
    assert len(set(wanted)) > 2, "a constant answer can't tell positions apart"
    assert our_tokens(engine, prompt, 8, late=9) != wanted


def test_deepstack_levels_travel_with_the_embeddings(
    engine: HFEngine, prompt: Prompt, family: str
) -> None:
    hidden = engine.backbone.text_config.hidden_size
    levels = 3 if family in DEEPSTACK else 0
    vision = see(engine, prompt)
    for chunk in prompt.chunks:
        if chunk.media is not None:
            assert vision[chunk.media.digest].shape[-1] == (1 + levels) * hidden
    if not levels:
        return

    def keys(changed: dict[str, torch.Tensor]) -> ChunkKV:
        return engine.prefill(prompt.chunks, changed, start=0).kv

    right = keys(vision)
    dropped = {name: level[:, : 2 * hidden] for name, level in vision.items()}
    swapped = {
        name: torch.cat([e[:, :hidden], e[:, 2 * hidden :], e[:, hidden : 2 * hidden]], dim=-1)
        for name, e in vision.items()
    }
    shuffled = {
        name: torch.cat([e[:, :hidden], e[:, hidden:].flip(0)], dim=-1)
        for name, e in vision.items()
    }
    for wrong in (dropped, swapped, shuffled):
        other = keys(wrong)
        assert other.tensors["k"][0].equal(right.tensors["k"][0])  # level 1 joins behind layer 0
        assert relative(other.tensors["k"][2], right.tensors["k"][2]) > 0.01


def test_frame_is_what_prompt_writes_around_an_image(engine: HFEngine, picture: Any) -> None:
    prefix, tail = engine.frame("where is it?")
    parts = [{"type": "image", "image": picture(0)}, {"type": "text", "text": "where is it?"}]
    made = engine.prompt([{"role": "user", "content": parts}])
    assert (made.chunks[0], made.tail) == (prefix, tail)


def test_no_text_holds_a_token_of_media(engine: HFEngine, family: str) -> None:
    for kind, (_, placeholder, _) in SPELLING[family].items():
        for text in (placeholder, wrapped(family, kind), f"so {wrapped(family, kind)} is it"):
            with pytest.raises(ConfigError, match="Media tokens"):
                engine.text_chunk(text)
            with pytest.raises(ConfigError):
                engine.prompt([{"role": "user", "content": [{"type": "text", "text": text}]}])


@pytest.mark.parametrize("name", ["qwen2_5_omni", "qwen3_omni_moe"])
def test_both_names_of_a_thinker_are_one_family(name: str) -> None:
    whole, thinker = TABLE[name], TABLE[f"{name}_thinker"]
    assert (whole.model_class, whole.modalities) == (thinker.model_class, thinker.modalities)


@pytest.mark.parametrize(
    ("name", "whole"),
    [("qwen2_5_omni", "Qwen2_5Omni"), ("qwen3_omni_moe", "Qwen3OmniMoe")],
)
def test_a_checkpoint_of_a_whole_omni_model_is_served_by_its_thinker(
    name: str, whole: str, tmp_path: Path, picture: Any
) -> None:
    alone = HFEngine.from_pretrained(build(name, tmp_path / "thinker"))
    config = getattr(transformers, f"{whole}Config")(
        thinker_config=alone.model.config.to_dict(), enable_audio_output=False
    )
    model = getattr(transformers, f"{whole}ForConditionalGeneration")(config)
    model.thinker.load_state_dict(alone.model.state_dict())
    model.save_pretrained(tmp_path / "whole")
    MROPE[name].save_surroundings(tmp_path / "whole", MROPE[name].tokenizer())
    engine = HFEngine.from_pretrained(tmp_path / "whole")
    there, here = asked(engine, picture), asked(alone, picture)
    mine = engine.prefill((*there.chunks, there.tail), see(engine, there), start=0)
    own = alone.prefill((*here.chunks, here.tail), see(alone, here), start=0)
    for channel, tensor in own.kv.tensors.items():
        assert mine.kv.tensors[channel].equal(tensor)
    # its weights lie at other addresses, for which torch may sum the head's products in another order
    assert relative(mine.logits, own.logits) <= HEAD_ROUNDING


def test_tiny_models_are_redrawn(family: str) -> None:
    """Default init is near-linear, where any window gives the same answer."""
    row = MROPE[family]
    model = row.model(row.tokenizer())
    layer = model.get_decoder().layers[1].self_attn.k_proj.weight.detach()
    assert 0.15 < layer.std().item() < 0.25
