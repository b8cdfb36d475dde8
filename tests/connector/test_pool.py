"""The pool measures how a block lies in memory, and refuses one that it can't read."""

import pytest
import torch
from connector_doubles import BLOCK, LAYERS, SHAPES, Layer, drawn, pool

from kamera.channels import ChunkKV
from kamera.engines.vllm.pool import Pool
from kamera.errors import UnsupportedModelError


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_what_is_written_is_read_back(dtype):
    under_test = pool(dtype)
    kv = ChunkKV({n: t.to(dtype) for n, t in drawn(40).tensors.items()})
    slots = under_test.slots([5, 2, 9], 3, 43)
    under_test.write(kv, slots)
    back = under_test.read(slots)
    assert all(back.tensors[name].equal(kv.tensors[name]) for name in kv.tensors)


def test_other_slots_keep_theirs():
    under_test = pool()
    first, second = under_test.slots([4], 0, 8), under_test.slots([4], 8, 16)
    under_test.write(drawn(8, 1), first)
    under_test.write(drawn(8, 2), second)
    assert under_test.read(first).tensors["k"].equal(drawn(8, 1).tensors["k"])


def test_measuring_leaves_the_null_block_as_it_was():
    layers = [Layer() for _ in range(LAYERS)]
    for layer in layers:
        layer.kv_cache.normal_()
    before = [layer.kv_cache.clone() for layer in layers]
    Pool(layers, SHAPES, BLOCK)
    assert all(layer.kv_cache.equal(kept) for layer, kept in zip(layers, before, strict=True))


def test_a_cache_that_loses_what_is_written_is_refused():
    class Lossy(Layer):
        def do_kv_cache_update(self, layer, key, value, kv_cache, slots):
            super().do_kv_cache_update(layer, key, key, kv_cache, slots)

    with pytest.raises(UnsupportedModelError, match="where they were written"):
        Pool([Lossy()], SHAPES, BLOCK)


def test_a_layer_with_another_layout_is_refused():
    class Swapped(Layer):
        def do_kv_cache_update(self, layer, key, value, kv_cache, slots):
            super().do_kv_cache_update(layer, key.flip(-1), value, kv_cache, slots)

    with pytest.raises(UnsupportedModelError, match="bit for bit"):
        Pool([Layer(), Swapped()], SHAPES, BLOCK)


def test_a_quantised_cache_is_refused():
    layer = Layer()
    layer.kv_cache = layer.kv_cache.to(torch.uint8)
    with pytest.raises(UnsupportedModelError, match="uint8"):
        Pool([layer], SHAPES, BLOCK)


def test_block_ids_may_be_of_larger_blocks_than_the_caches():
    under_test = Pool([Layer() for _ in range(LAYERS)], SHAPES, 2 * BLOCK)
    slots = under_test.slots([3, 1], 0, 3 * BLOCK)
    assert slots[:: 2 * BLOCK].tolist() == [3 * 2 * BLOCK, 1 * 2 * BLOCK]
    under_test.write(drawn(3 * BLOCK), slots)
    assert under_test.read(slots).tensors["v"].equal(drawn(3 * BLOCK).tensors["v"])


def test_blocks_of_another_size_are_refused():
    with pytest.raises(UnsupportedModelError, match="first dimension"):
        Pool([Layer()], SHAPES, BLOCK // 2)
