"""rotate, unrotate and relocate against the plain reference, and as algebra."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rope_reference import make_spec, members, pair_ulp, reference_rotate

from kamera.errors import ConfigError, UnsupportedRopeError
from kamera.rope import relocate, rotate, unrotate

SEEDS = st.integers(0, 2**31)
SHAPES = {
    "1-D": {"num_axes": 1},
    "M-RoPE": {"num_axes": 3},
    "pairs": {"num_axes": 1, "layout": "pairs"},
    "partial": {"num_axes": 1, "rotary_dim": 12},
    "pairs, partial, M-RoPE": {"num_axes": 3, "layout": "pairs", "rotary_dim": 12},
}
SPECS = st.sampled_from([make_spec(**shape) for shape in SHAPES.values()])
BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}
few = settings(max_examples=20, deadline=None)


def draw(seed, num_axes, num_tokens=5, heads=3, head_dim=16, furthest=30000):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, num_tokens, heads, head_dim, generator=generator)
    positions = torch.randint(0, furthest, (num_tokens, num_axes), generator=generator)
    return x, positions


def plain_torch(x, positions, spec):
    """RoPE as models write it, all in x's dtype: the error that a user already accepts."""
    angles = positions.float()[:, list(spec.axes)] * torch.tensor(spec.inv_freq)
    cos, sin = angles.cos().to(x.dtype)[:, None, :], angles.sin().to(x.dtype)[:, None, :]
    real, imag = zip(*(members(spec, pair) for pair in range(spec.num_pairs)), strict=True)
    first, second = x[..., real], x[..., imag]
    out = x.clone()
    out[..., real] = first * cos + -second * sin
    out[..., imag] = second * cos + first * sin
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("num_tokens", [1, 97])
def test_error_is_at_most_twice_plain_torch(shape, dtype, num_tokens):
    spec = make_spec(head_dim=24, **SHAPES[shape])
    x, positions = draw(0, spec.num_axes, num_tokens, heads=1, head_dim=24)
    x = x[0].to(dtype)
    reference = reference_rotate(x, positions, spec)
    ours = (rotate(x, positions, spec).double() - reference).abs().max()
    theirs = (plain_torch(x, positions, spec).double() - reference).abs().max()
    assert ours <= 2 * theirs


@pytest.mark.parametrize("shape", SHAPES)
def test_float64_keys_are_rotated_in_float64(shape):
    spec = make_spec(**SHAPES[shape])
    x, positions = draw(1, spec.num_axes)
    x = x.double()
    got = rotate(x, positions, spec)
    assert got.dtype == torch.float64
    for layer in range(2):
        wanted = reference_rotate(x[layer], positions, spec)
        torch.testing.assert_close(got[layer], wanted, rtol=0, atol=1e-14)


@few
@given(SEEDS, SPECS, st.sampled_from(list(BITS)))
def test_zero_positions_are_the_identity_bit_for_bit(seed, spec, dtype):
    x, positions = draw(seed, spec.num_axes)
    x = x.to(dtype)
    x[0, 0, 0, :4] = torch.tensor([-0.0, 0.0, float("inf"), -0.0])
    positions[::2] = 0
    bits = BITS[dtype]
    for turn in (rotate, unrotate):
        out = turn(x, positions, spec)
        assert torch.equal(out[:, ::2].view(bits), x[:, ::2].view(bits))


@few
@given(SEEDS, st.sampled_from(list(BITS)), st.sampled_from([1.0, 1.139]))
def test_channels_that_do_not_rotate_keep_their_bits(seed, dtype, scaling):
    spec = make_spec(3, scaling=scaling, layout="pairs", rotary_dim=12)
    x, positions = draw(seed, 3)
    x[0, 1, 0, 12:] = torch.tensor([-0.0, float("nan"), float("inf"), 1e-44])
    x = x.to(dtype)
    for turn in (rotate, unrotate):
        out = turn(x, positions, spec)
        assert torch.equal(out[..., 12:].view(BITS[dtype]), x[..., 12:].view(BITS[dtype]))
        assert not torch.equal(out[..., :12], x[..., :12])


def test_pairs_of_frequency_zero_keep_their_values():
    """Proportional RoPE (Gemma4): a plain spec, zero for part of the head."""
    spec = make_spec(1)
    still = dataclasses.replace(spec, inv_freq=(*spec.inv_freq[:4], 0.0, 0.0, 0.0, 0.0))
    x, positions = draw(5, 1)
    out = rotate(x, positions, still)
    assert torch.equal(out[..., [4, 5, 6, 7, 12, 13, 14, 15]], x[..., [4, 5, 6, 7, 12, 13, 14, 15]])
    moving = [0, 1, 2, 3, 8, 9, 10, 11]
    assert torch.equal(out[..., moving], rotate(x, positions, spec)[..., moving])


@few
@given(SEEDS, SPECS, st.sampled_from([1.0, 1.139, 0.7]))
def test_unrotate_takes_rotate_back(seed, spec, scaling):
    spec = dataclasses.replace(spec, attention_scaling=scaling)
    x, positions = draw(seed, spec.num_axes)
    back = unrotate(rotate(x, positions, spec), positions, spec)
    assert (back - x).abs().max() <= 5e-7 * x.abs().max()


@few
@given(SEEDS, SPECS, st.integers(-64, 64), st.integers(-64, 64))
def test_two_shifts_equal_their_sum(seed, spec, first, second):
    x, positions = draw(seed, spec.num_axes, furthest=64)
    twice = rotate(rotate(x, positions * 0 + first, spec), positions * 0 + second, spec)
    once = rotate(x, positions * 0 + first + second, spec)
    # Angles are float32: each of the three rounds by up to half an ULP of 128 radians.
    assert (twice - once).abs().max() <= 2e-5 * x.abs().max()


@few
@given(SEEDS, st.integers(1, 1000), st.sampled_from(["half", "pairs"]))
def test_each_axis_turns_its_own_pairs_alone(seed, step, layout):
    spec = make_spec(3, layout=layout)
    x, positions = draw(seed, 3)
    positions[:] = torch.tensor([7, 1009, 20011])  # t, h, w all apart
    base = rotate(x, positions, spec)
    for axis in range(3):
        moved = positions.clone()
        moved[:, axis] += step
        changed = (rotate(x, moved, spec) != base).flatten(0, 2).any(dim=0)
        own = torch.zeros(16, dtype=torch.bool)
        for pair in (pair for pair, read in enumerate(spec.axes) if read == axis):
            own[list(members(spec, pair))] = True
        assert not changed[~own].any()
        assert changed[own].any()


@few
@given(SEEDS, SPECS)
def test_a_relocated_bf16_canonical_is_rounded_once(seed, spec):
    x, positions = draw(seed, spec.num_axes)
    canonical = x[0].bfloat16()
    got = relocate(canonical, positions, spec)
    exact = reference_rotate(canonical, positions, spec)
    error = (got.double() - exact).abs()
    assert (error <= 0.5001 * pair_ulp(exact, spec)).all()


@few
@given(SEEDS, SPECS)
def test_back_to_zero_and_out_again_stays_within_one_bf16_ulp(seed, spec):
    """R(p1) · R(−p0) through a bf16 canonical, against the correctly rounded bf16 rotation."""
    x, source = draw(seed, spec.num_axes)
    _, target = draw(seed + 1, spec.num_axes)
    cached = x[0].bfloat16()
    got = relocate(unrotate(cached, source, spec), target, spec)
    wanted = reference_rotate(reference_rotate(cached, source, spec, sign=-1), target, spec)
    steps = (got.double() - wanted.bfloat16().double()).abs() / pair_ulp(wanted, spec)
    assert steps.max() <= 1.0


def test_relocation_does_not_drift_over_a_thousand_slides_and_chaining_does():
    """Why the canonical is stored: a rotation chained in bf16 loses a little at every slide."""
    spec = make_spec(3)
    x, positions = draw(3, 3, furthest=4096)
    canonical = x.bfloat16()
    chained = relocate(canonical, positions, spec)
    worst = 0.0
    for slide in range(1, 1001):
        step = torch.ones_like(positions)
        chained = rotate(chained, step, spec)
        if slide % 50 == 0:
            here = positions + slide
            exact = rotate(canonical.double(), here, spec)
            error = (relocate(canonical, here, spec).double() - exact).abs() / pair_ulp(exact, spec)
            worst = max(worst, error.max().item())
    drift = ((chained.double() - exact).abs() / pair_ulp(exact, spec)).max().item()
    assert worst <= 0.5001  # the bound of one relocation, whatever the number of slides
    assert drift > 4.0


def test_relocation_takes_an_output_dtype_and_leaves_its_input_alone():
    spec = make_spec(3)
    x, positions = draw(4, 3)
    kept = x.clone()
    assert relocate(x, positions, spec, torch.bfloat16).dtype == torch.bfloat16
    assert torch.equal(
        relocate(x, positions, spec, torch.bfloat16), relocate(x, positions, spec).bfloat16()
    )
    assert torch.equal(x, kept)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("x_shape", "positions", "message"),
    [
        ((5, 2, 16), torch.zeros(4, 3, dtype=torch.int64), r"\[T=5, P=3\], got \[4, 3\]"),
        ((5, 2, 16), torch.zeros(5, 1, dtype=torch.int64), r"\[T=5, P=3\], got \[5, 1\]"),
        ((5, 2, 16), torch.zeros(5, dtype=torch.int64), r"\[T=5, P=3\], got \[5\]"),
        ((5, 2, 16), torch.zeros(5, 3), "integer dtype, got torch.float32"),
        ((5, 2, 18), torch.zeros(5, 3, dtype=torch.int64), r"D=16\], got \[5, 2, 18\]"),
        ((5, 16), torch.zeros(5, 3, dtype=torch.int64), r"T, H, D=16\], got \[5, 16\]"),
    ],
)
def test_a_wrong_shape_says_what_was_expected(x_shape, positions, message):
    with pytest.raises(ConfigError, match=message):
        rotate(torch.zeros(x_shape), positions, make_spec(3))


@pytest.mark.usefixtures("unchecked")
def test_integer_keys_are_refused():
    with pytest.raises(ConfigError, match="floating dtype"):
        rotate(torch.zeros(5, 2, 16).long(), torch.zeros(5, 3).long(), make_spec(3))


def test_a_position_beyond_the_reach_is_refused_with_its_reason():
    spec = dataclasses.replace(make_spec(3), scheme="longrope", max_positions=4096)
    x, positions = draw(6, 3, furthest=4096)
    positions[-1] = torch.tensor([4095, 0, 1])
    for turn in (rotate, unrotate, relocate):
        turn(x, positions, spec)
    positions[-1] = torch.tensor([0, 4096, 1])
    message = "position 4096 is beyond .*: longrope RoPE uses others from position 4096 on"
    for turn in (rotate, unrotate, relocate):
        with pytest.raises(UnsupportedRopeError, match=message):
            turn(x, positions, spec)
    spec.check_reach(4096)
    with pytest.raises(UnsupportedRopeError, match="position 4096 is beyond"):
        spec.check_reach(4097)
