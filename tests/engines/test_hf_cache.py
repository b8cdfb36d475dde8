"""The cache with room gives what Transformers' own gives, and writes in place."""

from typing import Any

import pytest
import torch
from transformers.cache_utils import DynamicLayer

from kamera.channels import ATTENTION, ChunkKV
from kamera.engines.contract import Composed
from kamera.engines.hf import HFEngine
from kamera.engines.hf import cache as kv_cache
from kamera.engines.hf.cache import SPARE_TOKENS, RoomyLayer


def states(num_tokens: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(1, 2, num_tokens, 8, generator=generator),
        torch.randn(1, 2, num_tokens, 4, generator=generator),
    )


def test_it_holds_what_transformers_own_layer_holds() -> None:
    ours, theirs = RoomyLayer(), DynamicLayer()
    for step, num_tokens in enumerate((5, 1, SPARE_TOKENS + 3, 1, 40)):
        got = ours.update(*states(num_tokens, step))
        wanted = theirs.update(*states(num_tokens, step))
        assert all(a.equal(b) for a, b in zip(got, wanted, strict=True))
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.get_mask_sizes(7) == theirs.get_mask_sizes(7)


def test_what_is_appended_is_written_into_the_room() -> None:
    layer = RoomyLayer()
    keys, _ = layer.update(*states(5, 0))
    again, _ = layer.update(*states(SPARE_TOKENS, 1))
    assert again.data_ptr() == keys.data_ptr()
    moved, _ = layer.update(*states(1, 2))
    assert moved.data_ptr() != keys.data_ptr(), "there was no room left"


def test_a_cropped_layer_appends_where_it_was_cut() -> None:
    ours, theirs = RoomyLayer(), DynamicLayer()
    for layer in (ours, theirs):
        layer.update(*states(9, 0))
        layer.crop(-4)
        layer.update(*states(2, 1))
    assert ours.keys.equal(theirs.keys)
    assert ours.values.equal(theirs.values)


def test_keys_that_another_put_there_are_not_lost() -> None:
    layer = RoomyLayer()
    layer.update(*states(5, 0))
    other, _ = states(5, 3)
    layer.keys = other
    keys, values = layer.update(*states(1, 4))
    assert keys[:, :, :5].equal(other)
    assert values[:, :, :5].equal(states(5, 0)[1])


@pytest.fixture(scope="module")
def held() -> ChunkKV:
    generator = torch.Generator().manual_seed(0)
    return ChunkKV({n: torch.randn(3, 6, 2, 8, generator=generator) for n in ("k", "v")})


def test_a_copied_context_is_left_alone_and_a_composed_one_is_used_in_place(held: ChunkKV) -> None:
    before = held.tensors["k"].clone()
    room = kv_cache.room(held, 10)
    for name, tensor in held.tensors.items():
        room.tensors[name][:, :6].copy_(tensor)
    composed = Composed(room, 6)
    assert composed.kv.tensors["k"].equal(before)
    copied, in_place = (kv_cache.write(context, ATTENTION) for context in (held, composed))
    new = torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 8)
    for layer in range(3):
        for cache in (copied, in_place):
            cache.update(*new, layer)
        assert copied.layers[layer].keys.equal(in_place.layers[layer].keys)
        assert in_place.layers[layer].keys.is_contiguous() is (room.num_tokens == 10)
    assert held.tensors["k"].equal(before)
    assert room.tensors["k"][1, 6:].transpose(0, 1).equal(new[0][0])
    assert composed.kv.tensors["k"].equal(before)


def test_a_forward_behind_a_composed_window_is_the_one_behind_its_copy(
    engine: HFEngine, picture: Any
) -> None:
    prefix, tail = engine.frame("What is it?")
    assert prefix is not None
    chunk = engine.image_chunk(picture(1))
    assert chunk.media is not None
    vision = {chunk.media.digest: engine.see(chunk)}
    kv = engine.prefill([prefix, chunk], vision, start=0).kv
    start = prefix.extent + chunk.extent
    for spare in (0, 100):  # room for nothing but the window, and for more than the answer
        room = engine.room(kv, kv.num_tokens + spare)
        for name, tensor in kv.tensors.items():
            room.tensors[name][:, : kv.num_tokens].copy_(tensor)
        composed = Composed(room, kv.num_tokens)
        made = [
            engine.generate(tail, start=start, context=context, max_new_tokens=4)
            for context in (kv, composed)
        ]
        assert made[0].logits.equal(made[1].logits)
        assert made[0].token_ids == made[1].token_ids
        assert all(composed.kv.tensors[n].equal(t) for n, t in kv.tensors.items())
