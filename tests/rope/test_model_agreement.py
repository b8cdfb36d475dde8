"""Against the models themselves: tiny random Qwen2.5-VL (M-RoPE, sectioned) and Llama (1-D).

Reference path: prefill at p0, take layer 0's cached K off its rotation, put it at p1, and compare
with the K that the model caches when it prefills the same tokens at p1. Layer 0 sees no context,
so its keys at two places differ by position alone.
"""

import pytest
import torch
from transformers import DynamicCache

from kamera.channels import ChunkKV
from kamera.lab.conformance.build import build_model
from kamera.lab.conformance.models import case_of, case_of_scheme
from kamera.rope import PerLayerRope, read_rope_spec, rotate, unrotate

NUM_TOKENS = 13
MODELS = {"qwen2_5_vl": case_of("qwen2_5_vl"), "llama": case_of("llama")}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return build_model(MODELS[request.param])


def rotary_of(model):
    return getattr(model.model, "language_model", model.model).rotary_emb


def spec_of(model):
    return read_rope_spec(rotary_of(model), model.config.get_text_config())


def place(offset, spec):
    """Positions of the chunk at an offset, t, h and w all different when there are three axes."""
    steps = torch.arange(NUM_TOKENS)
    grid = torch.stack([steps // 6, steps % 5, (3 * steps) % 7], dim=-1)
    return offset + (grid if spec.num_axes == 3 else steps[:, None])


@torch.no_grad()
def prefill(model, positions):
    """The chunk's KV as the model caches it: [L, T, H, D] for k and v."""
    ids = (torch.arange(NUM_TOKENS) * 7 % 61)[None]
    position_ids = positions.T[:, None] if positions.shape[1] == 3 else positions.T
    cache = DynamicCache()
    inner = getattr(model.model, "language_model", model.model)
    inner(
        input_ids=ids,
        position_ids=position_ids,
        attention_mask=torch.ones(1, NUM_TOKENS, dtype=torch.int64),
        cache=cache,
        use_cache=True,
    )
    keys = torch.stack([layer.keys[0].transpose(0, 1) for layer in cache.layers])
    values = torch.stack([layer.values[0].transpose(0, 1) for layer in cache.layers])
    return ChunkKV({"k": keys, "v": values})


def relative(got, wanted):
    return ((got.double() - wanted.double()).abs().max() / wanted.double().abs().max()).item()


@pytest.mark.parametrize("offset", [1, 37, 4096, 30000])
@pytest.mark.parametrize("source", [0, 517])
def test_layer_0_is_the_model_s_own_at_any_offset(model, source, offset):
    spec = spec_of(model)
    canonical = prefill(model, place(source, spec)).to_canonical(place(source, spec), spec)
    moved = canonical.at(place(offset, spec), spec)
    wanted = prefill(model, place(offset, spec))
    assert relative(moved.tensors["k"][0], wanted.tensors["k"][0]) <= 1e-6
    assert torch.equal(moved.tensors["v"][0], wanted.tensors["v"][0])


def test_the_canonical_is_the_key_before_rope(model):
    spec = spec_of(model)
    positions = place(30000, spec)
    inner = getattr(model.model, "language_model", model.model)
    seen = []
    hook = inner.layers[0].self_attn.k_proj.register_forward_hook(lambda m, i, o: seen.append(o))
    try:
        canonical = prefill(model, positions).to_canonical(positions, spec)
    finally:
        hook.remove()
    before_rope = seen[0].reshape(canonical.tensors["k"][0].shape)
    assert relative(canonical.tensors["k"][0], before_rope) <= 1e-6


def test_values_keep_their_storage(model):
    spec = spec_of(model)
    cached = prefill(model, place(5, spec))
    moved = cached.to_canonical(place(5, spec), spec).at(place(99, spec), spec)
    assert moved.tensors["v"].data_ptr() == cached.tensors["v"].data_ptr()


def test_angles_rounded_as_the_model_rounds_them_beat_float64_angles(model):
    """The reason for the float32 product in `kamera.rope.angles`: a more exact angle is worse."""
    spec = spec_of(model)
    positions, target = place(30000, spec), prefill(model, place(30000, spec)).tensors["k"][0]
    canonical = prefill(model, place(0, spec)).to_canonical(place(0, spec), spec).tensors["k"][0]
    by_pair = positions.double()[:, list(spec.axes)]
    exact = (by_pair * torch.tensor(spec.inv_freq, dtype=torch.float64))[:, None]
    first, second = canonical.double().chunk(2, dim=-1)
    turned = torch.cat(
        [first * exact.cos() - second * exact.sin(), second * exact.cos() + first * exact.sin()], -1
    )
    ours = relative(rotate(canonical, positions, spec), target)
    assert ours <= 1e-6
    assert relative(turned, target) > 100 * ours


@pytest.mark.parametrize("scheme", ["linear", "llama3", "yarn"])
@pytest.mark.parametrize("offset", [37, 30000])
def test_scaled_rope_is_a_pure_rotation_once_the_factor_is_divided_out(scheme, offset):
    model = build_model(case_of_scheme(scheme))
    spec = spec_of(model)
    assert spec.scheme == scheme
    assert (spec.attention_scaling != 1.0) == (scheme == "yarn")
    canonical = prefill(model, place(11, spec)).to_canonical(place(11, spec), spec)
    wanted = prefill(model, place(offset, spec)).tensors["k"][0]
    assert relative(canonical.at(place(offset, spec), spec).tensors["k"][0], wanted) <= 1e-6
    cached = prefill(model, place(offset, spec)).tensors["k"][0]
    before_rope = unrotate(cached, place(offset, spec), spec)
    norms = cached.norm(dim=-1) / before_rope.norm(dim=-1)
    torch.testing.assert_close(norms, torch.full_like(norms, spec.attention_scaling))


def test_a_bf16_cache_relocates_to_the_model_s_own_rounding():
    """A bf16 model rounds cos and sin to bf16 too; the relocated key stays within that noise."""
    model = build_model(MODELS["qwen2_5_vl"]).bfloat16()
    rotary = rotary_of(model)
    spec = spec_of(model)
    assert spec.inv_freq_tensor().tolist() == rotary.inv_freq.float().tolist()
    source, target = place(517, spec), place(4096, spec)
    wanted = prefill(model, target).tensors["k"][0]
    moved = prefill(model, source).to_canonical(source, spec).at(target, spec)
    assert moved.dtype == torch.bfloat16
    # Four bf16 roundings a side (cos, two products, sum) of half an ULP = 2^-9 relative each.
    assert relative(moved.tensors["k"][0], wanted) <= 8 * 2**-9


def test_every_layer_of_gemma3_moves_by_its_own_base():
    """A chunk with nothing before it is the same anywhere, in deep layers too, but for what the
    model's own rounding of its angles (below 64 radians: 4e-6) does to attention."""
    model = build_model(case_of("gemma3_text"))
    spec = spec_of(model)
    assert isinstance(spec, PerLayerRope)
    canonical = prefill(model, place(5, spec)).to_canonical(place(5, spec), spec)
    wanted = prefill(model, place(40, spec))
    moved = canonical.at(place(40, spec), spec)
    swapped = PerLayerRope(spec.specs, tuple(1 - index for index in spec.layers))
    wrong = canonical.at(place(40, spec), swapped)
    for layer in range(len(spec.layers)):
        key = wanted.tensors["k"][layer]
        assert relative(moved.tensors["k"][layer], key) <= 1e-5
        assert relative(wrong.tensors["k"][layer], key) > 1e-1
