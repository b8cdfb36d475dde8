"""ChunkKV: one value for all channels and layers; what rotates and what keeps its bytes."""

import pytest
import torch

from kamera.channels import ATTENTION, MLA, ChunkKV, channels_of, concat
from kamera.errors import ConfigError
from kamera.rope import PerLayerRope, RopeSpec, unrotate

SPEC = RopeSpec((1.0, 0.5, 0.125, 0.0625), (0, 1, 1, 2), num_axes=3, head_dim=8)


def make_chunk(num_tokens=5, seed=0, dtype=torch.bfloat16, num_layers=2, heads=3):
    generator = torch.Generator().manual_seed(seed)
    shape = (num_layers, num_tokens, heads, 8)
    k, v = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    return ChunkKV({"k": k, "v": v})


def make_latents(num_tokens=5, seed=0, dtype=torch.bfloat16, num_layers=2):
    """MLA: a latent of 12 and a rotary key of 8, one head each."""
    generator = torch.Generator().manual_seed(seed)
    c_kv, k_pe = (
        torch.randn(num_layers, num_tokens, 1, size, generator=generator).to(dtype)
        for size in (12, 8)
    )
    return ChunkKV({"c_kv": c_kv, "k_pe": k_pe})


def positions_of(num_tokens, start=0):
    steps = torch.arange(num_tokens)
    return start + torch.stack([steps, 2 * steps + 1, 3 * steps + 2], dim=-1)


def test_keys_rotate_and_values_do_not():
    assert [(channel.name, channel.rotates) for channel in ATTENTION] == [("k", True), ("v", False)]
    assert channels_of(["v", "k"]) is ATTENTION


def test_sizes_are_those_of_the_tensors():
    chunk = make_chunk()
    assert (chunk.num_layers, chunk.num_tokens, chunk.dtype) == (2, 5, torch.bfloat16)
    assert chunk.num_bytes == 2 * (2 * 5 * 3 * 8) * 2


def test_values_are_byte_identical_at_every_position():
    chunk = make_chunk()
    canonical = chunk.to_canonical(positions_of(5), SPEC)
    moved = canonical.at(positions_of(5, 1234), SPEC)
    assert moved.tensors["v"].data_ptr() == chunk.tensors["v"].data_ptr()
    assert not torch.equal(moved.tensors["k"], chunk.tensors["k"])


def test_a_chunk_returns_to_where_it_was_cached():
    chunk = make_chunk(dtype=torch.float32)
    back = chunk.to_canonical(positions_of(5), SPEC).at(positions_of(5), SPEC)
    torch.testing.assert_close(back.tensors["k"], chunk.tensors["k"], rtol=0, atol=1e-6)


def test_a_bf16_cache_comes_back_bit_for_bit_through_a_float32_canonical():
    chunk = make_chunk(num_tokens=97)
    canonical = chunk.to_canonical(positions_of(97, 4000), SPEC, torch.float32)
    assert canonical.dtype == torch.float32
    assert torch.equal(canonical.tensors["v"].bfloat16(), chunk.tensors["v"])
    back = canonical.at(positions_of(97, 4000), SPEC, torch.bfloat16)
    assert torch.equal(back.tensors["v"], chunk.tensors["v"])
    same = (back.tensors["k"] == chunk.tensors["k"]).double().mean()
    assert same > 0.999  # a key next to zero may round to its neighbour


def test_un_rotating_to_float32_rounds_nothing():
    chunk = make_chunk()
    canonical = chunk.to_canonical(positions_of(5), SPEC, torch.float32)
    exact = unrotate(chunk.tensors["k"].double(), positions_of(5), SPEC)
    torch.testing.assert_close(canonical.tensors["k"].double(), exact, rtol=0, atol=1e-6)


def test_slices_are_views_and_concatenate_to_the_whole():
    chunk = make_chunk(num_tokens=7)
    parts = [chunk.slice_tokens(0, 3), chunk.slice_tokens(3, 3), chunk.slice_tokens(3, 7)]
    assert parts[0].tensors["k"].data_ptr() == chunk.tensors["k"].data_ptr()
    whole = concat(parts)
    assert [part.num_tokens for part in parts] == [3, 0, 4]
    assert all(torch.equal(whole.tensors[name], chunk.tensors[name]) for name in ("k", "v"))


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2), (0, 6)])
def test_a_range_outside_the_chunk_is_refused(start, end):
    with pytest.raises(ConfigError, match=r"<= T=5, got"):
        make_chunk().slice_tokens(start, end)


def test_a_chunk_does_not_follow_its_caller_s_dict():
    tensors = dict(make_chunk().tensors)
    chunk = ChunkKV(tensors)
    tensors.clear()
    assert chunk.num_tokens == 5


def test_of_mla_the_rotary_key_alone_rotates():
    assert [(channel.name, channel.rotates) for channel in MLA] == [("c_kv", False), ("k_pe", True)]
    chunk = make_latents()
    assert chunk.channels is MLA
    moved = chunk.to_canonical(positions_of(5), SPEC).at(positions_of(5, 1234), SPEC)
    assert moved.tensors["c_kv"].data_ptr() == chunk.tensors["c_kv"].data_ptr()
    assert not torch.equal(moved.tensors["k_pe"], chunk.tensors["k_pe"])
    back = chunk.to_canonical(positions_of(5), SPEC, torch.float32).at(positions_of(5), SPEC)
    torch.testing.assert_close(
        back.tensors["k_pe"], chunk.tensors["k_pe"].float(), rtol=0, atol=1e-6
    )


def test_latents_have_sizes_slices_and_sums_as_any_chunk():
    chunk = make_latents(num_tokens=7)
    assert (chunk.num_layers, chunk.num_tokens) == (2, 7)
    assert chunk.num_bytes == 2 * 7 * (12 + 8) * 2
    whole = concat([chunk.slice_tokens(0, 3), chunk.slice_tokens(3, 7)])
    assert all(torch.equal(whole.tensors[name], chunk.tensors[name]) for name in chunk.tensors)
    with pytest.raises(ConfigError, match=r"Invalid chunks\[1\]"):
        concat([chunk, make_chunk(num_tokens=7)])


def test_each_layer_of_a_chunk_is_turned_by_its_own_scheme():
    far = RopeSpec((0.5, 0.25, 0.0625, 0.03125), (0, 1, 1, 2), num_axes=3, head_dim=8)
    rope = PerLayerRope.of([SPEC, far])
    chunk = make_chunk()
    got = chunk.to_canonical(positions_of(5), rope)
    for layer, spec in enumerate((SPEC, far)):
        wanted = unrotate(chunk.tensors["k"][layer], positions_of(5), spec)
        assert torch.equal(got.tensors["k"][layer], wanted)
    assert got.tensors["v"].data_ptr() == chunk.tensors["v"].data_ptr()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("k", "v", "message"),
    [
        (torch.zeros(2, 5, 24), torch.zeros(2, 5, 3, 8), r"\[L, T, H, D\], got \[2, 5, 24\]"),
        (torch.zeros(2, 5, 3, 8), torch.zeros(2, 4, 3, 8), r"\[L=2, T=5, H, D\] as k"),
        (torch.zeros(2, 5, 3, 8), torch.zeros(2, 5, 3, 8).half(), "expected torch.float32 on cpu"),
        (torch.zeros(2, 5, 3, 8).int(), torch.zeros(2, 5, 3, 8).int(), "floating dtype"),
    ],
)
def test_tensors_that_disagree_are_refused(k, v, message):
    with pytest.raises(ConfigError, match=message):
        ChunkKV({"k": k, "v": v})


def test_unknown_or_missing_channels_are_refused():
    message = r"expected one of \[\['k', 'v'\], \['c_kv', 'k_pe'\]\], got \['k'\]"
    with pytest.raises(ConfigError, match=message):
        ChunkKV({"k": torch.zeros(2, 5, 3, 8)})
    with pytest.raises(ConfigError, match=r"got \['c_kv', 'v'\]"):
        ChunkKV({"c_kv": torch.zeros(2, 5, 1, 8), "v": torch.zeros(2, 5, 1, 8)})


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([], "at least one chunk"),
        ([make_chunk(), make_chunk(num_layers=3)], r"Invalid chunks\[1\]"),
        ([make_chunk(), make_chunk(heads=2)], r"Invalid chunks\[1\]"),
        ([make_chunk(), make_chunk(dtype=torch.float32)], r"Invalid chunks\[1\]"),
    ],
)
def test_chunks_that_do_not_fit_are_not_concatenated(chunks, message):
    with pytest.raises(ConfigError, match=message):
        concat(chunks)
