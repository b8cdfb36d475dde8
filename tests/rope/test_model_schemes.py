"""Every scheme against the rotary module and the apply function of a real model that uses it.

Random keys, t, h and w apart, far out. `exact` is plain complex numbers in float64, at the angles as
the model rounds them.

Errors are in lengths of the pair (`error`). A rotated channel is a·cos − b·sin, and |a·cos| + |b·sin|
is at most the pair's length, so n roundings on the way cost at most n·u lengths, u being the unit
roundoff. Plain torch in the model's dtype: the table (in float32 the cosine itself is good to an
ULP = 2u, and the attention factor rounds once more), the product, the sum. Kamera: table, product and
sum in float32, then the output.
"""

import dataclasses

import pytest
import torch
from rope_models import LAYERED, MODELS, SWITCHING
from rope_reference import pair_length, reference_rotate

from kamera.channels import ChunkKV
from kamera.errors import UnsupportedRopeError
from kamera.rope import PerLayerRope, RopeSpec, read_rope_spec, rotate, unrotate

DTYPES = [torch.float32, torch.bfloat16]
OFFSETS = [0, 37, 4096, 30000]
NUM_TOKENS = 13

MODEL = {torch.float32: 5 * 2**-24, torch.bfloat16: 3 * 2**-8}
OURS = {torch.float32: 3 * 2**-24, torch.bfloat16: 2**-8 + 3 * 2**-24}
WRONG = 1e-2


def place(offset, num_axes):
    """Positions of 13 tokens, t, h and w all different when there are three axes."""
    steps = torch.arange(NUM_TOKENS)
    grid = torch.stack([steps // 6, 11 + steps % 5, 29 + (3 * steps) % 7], dim=-1)
    return offset + (grid if num_axes == 3 else steps[:, None])


def draw(head_dim, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(NUM_TOKENS, 2, head_dim, generator=generator).to(dtype)


def error(got, wanted, spec):
    """The largest difference, in lengths of the channel's pair."""
    return ((got.double() - wanted.double()).abs() / pair_length(wanted, spec)).max().item()


def moved_by(model_error, own_error):
    """Bounds of the canonical and of the relocated key: an error turns with its pair, √2 at most."""
    canonical = 2**0.5 * model_error + own_error
    return canonical, 2**0.5 * canonical + own_error + model_error


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


def test_the_spec_is_what_the_model_s_source_says(model):
    rotary, spec = model.read()
    assert isinstance(spec, RopeSpec)
    assert (spec.layout, spec.rotary_dim, spec.head_dim) == (model.layout, model.rotary_dim, 32)
    assert "".join("thw"[axis] for axis in spec.axes) == (model.axes or "t" * spec.num_pairs)
    assert spec.num_axes == (3 if model.axes else 1)
    assert spec.attention_scaling == pytest.approx(model.scaling)
    assert spec.scheme == model.parameters["rope_type"]
    assert torch.equal(spec.inv_freq_tensor(), rotary.inv_freq)
    assert spec.max_positions is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", OFFSETS)
def test_keys_are_rotated_as_the_model_rotates_them(model, offset, dtype):
    rotary, spec = model.read()
    keys, positions = draw(spec.head_dim, dtype), place(offset, spec.num_axes)
    theirs, ours = model.rotate(rotary, keys, positions), rotate(keys, positions, spec)
    exact = reference_rotate(keys, positions, spec)
    assert error(theirs, exact, spec) <= MODEL[dtype]  # the spec says what the model does
    assert error(ours, exact, spec) <= OURS[dtype]
    still = spec.head_dim - spec.rotary_dim
    if still:
        assert torch.equal(ours[..., -still:], keys[..., -still:])
        assert torch.equal(theirs[..., -still:], keys[..., -still:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [37, 30000])
def test_what_the_model_cached_moves_to_where_it_would_cache_it(model, offset, dtype):
    rotary, spec = model.read()
    keys = draw(spec.head_dim, dtype)
    source, target = place(517, spec.num_axes), place(offset, spec.num_axes)
    cached = model.rotate(rotary, keys, source)
    canonical = unrotate(cached, source, spec)
    to_canonical, to_moved = moved_by(MODEL[dtype], OURS[dtype])
    assert error(canonical, keys, spec) <= to_canonical
    moved = rotate(canonical, target, spec)
    assert error(moved, model.rotate(rotary, keys, target), spec) <= to_moved


def test_another_layout_or_axis_is_off_by_far_more_than_the_bound(model):
    """What the bound is worth: the specs that it must tell from the right one."""
    rotary, spec = model.read()
    keys, positions = draw(spec.head_dim), place(4096, spec.num_axes)
    theirs = model.rotate(rotary, keys, positions)
    other = "pairs" if spec.layout == "half" else "half"
    wrong = [dataclasses.replace(spec, layout=other)]
    if spec.num_axes == 3:
        swapped = tuple({0: 0, 1: 2, 2: 1}[axis] for axis in spec.axes)
        wrong += [dataclasses.replace(spec, axes=axes) for axes in (swapped, (0,) * len(swapped))]
    for candidate in wrong:
        assert error(rotate(keys, positions, candidate), theirs, spec) > WRONG


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LAYERED)
def test_each_layer_type_is_rotated_as_the_model_rotates_it(name, dtype):
    model = LAYERED[name]
    rotary, config = model.build()
    _, spec = model.read()
    assert isinstance(spec, PerLayerRope)
    assert {one.scheme for one in spec.specs} == {
        of_type["rope_type"] for of_type in model.parameters.values()
    }
    keys, positions = draw(32, dtype), place(30000, 1)
    stack = keys.expand(config.num_hidden_layers, -1, -1, -1)
    ours = rotate(stack, positions, spec)
    for layer, layer_type in enumerate(config.layer_types):
        theirs = model.rotate(rotary, keys, positions, layer_type)
        own = spec.layer(layer)
        exact = reference_rotate(keys, positions, own)
        assert error(theirs, exact, own) <= MODEL[dtype]
        assert error(ours[layer], exact, own) <= OURS[dtype]
    back = unrotate(ours, positions, spec)
    assert error(back, stack, own) <= moved_by(OURS[dtype], OURS[dtype])[0]
    chunk = ChunkKV({"k": ours, "v": stack})
    assert torch.equal(chunk.to_canonical(positions, spec).tensors["k"], back)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SWITCHING)
def test_a_scheme_with_a_switch_is_served_up_to_it_and_refused_beyond(name, dtype):
    model = SWITCHING[name]
    rotary, spec = model.read()
    assert isinstance(spec, RopeSpec)
    assert (spec.rotary_dim, spec.scheme) == (model.rotary_dim, model.parameters["rope_type"])
    assert spec.attention_scaling == pytest.approx(model.scaling)
    assert spec.max_positions is not None
    keys, last = draw(32, dtype), place(spec.max_positions - NUM_TOKENS, 1)
    theirs, exact = model.rotate(rotary, keys, last), reference_rotate(keys, last, spec)
    assert error(theirs, exact, spec) <= MODEL[dtype]
    assert error(rotate(keys, last, spec), exact, spec) <= OURS[dtype]
    cached = ChunkKV({"k": theirs[None], "v": keys[None]})
    canonical = cached.to_canonical(last, spec).tensors["k"][0]
    assert error(canonical, keys, spec) <= moved_by(MODEL[dtype], OURS[dtype])[0]
    for beyond in (last + 1, place(20000, 1)):
        with pytest.raises(UnsupportedRopeError, match=f"{spec.scheme} RoPE uses others from"):
            cached.to_canonical(beyond, spec)


@pytest.mark.parametrize("name", SWITCHING)
def test_the_reason_of_the_refusal_is_true(name):
    """Beyond the switch the model's keys aren't those of the spec, at any position of the forward."""
    model = SWITCHING[name]
    rotary, spec = model.read()
    unbounded = dataclasses.replace(spec, max_positions=None)
    keys, beyond = draw(32), place(20000, 1)
    theirs = model.rotate(rotary, keys, beyond)
    assert error(theirs, rotate(keys, beyond, unbounded), spec) > WRONG
    across = torch.cat([place(500, 1)[:6], beyond[6:]])  # one forward: its early tokens turn too
    theirs, ours = model.rotate(rotary, keys, across), rotate(keys, across, unbounded)
    assert error(theirs[:6], ours[:6], spec) > WRONG


@pytest.mark.parametrize("name", SWITCHING)
def test_a_module_that_has_run_beyond_its_switch_reads_as_a_fresh_one(name):
    model = SWITCHING[name]
    _, fresh = model.read()
    rotary, config = model.build()
    model.rotate(rotary, draw(32), place(20000, 1))
    assert rotary.inv_freq.tolist() != list(fresh.inv_freq)
    assert read_rope_spec(rotary, config) == fresh
    keys, last = draw(32), place(fresh.max_positions - NUM_TOKENS, 1)
    model.rotate(rotary, keys, place(20000, 1))
    theirs = model.rotate(rotary, keys, last)
    exact = reference_rotate(keys, last, fresh)
    assert error(theirs, exact, fresh) <= MODEL[torch.float32]
